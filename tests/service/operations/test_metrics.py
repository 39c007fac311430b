from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from gpuruntime.api.operation import Operation
from gpuruntime.control.informers.storage import eager
from gpuruntime.control.informers.store import Store, StoreWriter
from gpuruntime.service.operations.metrics import OperationCollector, OperationCounters

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def recorded(name: str, created: str, state: str | None) -> dict[str, Any]:
    """An Operation in its JSON form."""
    return {
        "metadata": {
            "name": name,
            "namespace": "system",
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": f"2026-01-01T{created}Z",
        },
        "spec": {"operationID": name, "requestHash": "x", "type": "create_gpu_unit"},
        "status": {} if state is None else {"state": state},
    }


def store_of(*objects: dict[str, Any]) -> Store[Operation]:
    store = Store(eager(Operation))
    writer = StoreWriter(store)
    for raw in objects:
        writer.upsert(None, raw, 100)
    return store


def test_cached_operations_are_counted_by_state_and_the_oldest_unfinished_one_is_timed() -> None:
    registry = CollectorRegistry()
    store = store_of(
        recorded("a", "11:00:00", "succeeded"),
        recorded("b", "11:59:00", None),
        recorded("c", "11:58:30", "running"),
        recorded("d", "11:59:59", "running"),
    )

    OperationCollector(registry, OperationCounters(()), store, lambda: NOON)

    shown = {
        state: registry.get_sample_value("gpuruntime_operations", {"state": state})
        for state in ("pending", "running", "succeeded", "failed")
    }
    assert shown == {"pending": 1, "running": 2, "succeeded": 1, "failed": 0}
    assert registry.get_sample_value("gpuruntime_operation_oldest_seconds") == 90


def test_the_oldest_age_is_zero_without_unfinished_operations_and_never_negative() -> None:
    done, ahead = CollectorRegistry(), CollectorRegistry()

    OperationCollector(done, OperationCounters(()), store_of(recorded("a", "11:00:00", "failed")), lambda: NOON)
    OperationCollector(ahead, OperationCounters(()), store_of(recorded("a", "12:00:01", None)), lambda: NOON)

    ages = [registry.get_sample_value("gpuruntime_operation_oldest_seconds") for registry in (done, ahead)]
    assert ages == [0, 0]


def test_attempts_are_counted_by_type_and_end_and_an_unknown_type_has_no_series() -> None:
    registry, counters = CollectorRegistry(), OperationCounters(["create_gpu_unit", "seed_stock_units"])
    OperationCollector(registry, counters, store_of(), lambda: NOON)

    counters.ended("create_gpu_unit", "succeeded", 0.4)
    counters.ended("create_gpu_unit", "interrupted", 4.0)
    counters.ended("of_another_version", "interrupted", 4.0)
    counters.taken_over["seed_stock_units"] += 1

    (seconds, takeovers, *_) = registry.collect()
    counts = {
        (sample.labels["type"], sample.labels["outcome"]): sample.value
        for sample in seconds.samples
        if sample.name.endswith("_count")
    }
    assert {labels for labels, count in counts.items() if count} == {
        ("create_gpu_unit", "succeeded"),
        ("create_gpu_unit", "interrupted"),
    }
    assert len(counts) == 8
    assert {sample.labels["type"]: sample.value for sample in takeovers.samples} == {
        "create_gpu_unit": 0,
        "seed_stock_units": 1,
    }
