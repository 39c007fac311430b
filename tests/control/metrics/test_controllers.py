import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters
from gpuruntime.control.metrics.controllers import ControllerCollector

PLAIN = {
    "controller_runtime_reconcile_errors_total": 2,
    "controller_runtime_terminal_reconcile_errors_total": 3,
    "controller_runtime_reconcile_timeouts_total": 4,
    "controller_runtime_max_concurrent_reconciles": 5,
    "controller_runtime_active_workers": 6,
    "gpuruntime_reconcile_live_reads_total": 7,
    "gpuruntime_reconcile_cache_waits_total": 8,
    "gpuruntime_reconcile_conflicts_total": 9,
    "gpuruntime_reconcile_hot_loops_total": 10,
}


def busy() -> ReconcileCounters:
    """Counters with distinct values."""
    counters = ReconcileCounters(max_concurrent=5)
    for result in ("error", "error", "success"):
        counters.finished(result, 0.02)
    counters.terminal_errors, counters.timeouts, counters.active_workers = 3, 4, 6
    counters.live_reads, counters.cache_waits, counters.conflicts, counters.hot_loops = 7, 8, 9, 10
    return counters


def test_an_idle_controller_has_every_series_from_the_start() -> None:
    registry = CollectorRegistry()
    ControllerCollector(registry, {"units": ReconcileCounters(max_concurrent=0)})

    families = list(text_string_to_metric_families(generate_latest(registry).decode()))

    assert len(families) == 11
    assert all(family.samples and not any(sample.value for sample in family.samples) for family in families)


def test_results_have_their_own_series() -> None:
    registry = CollectorRegistry()
    ControllerCollector(registry, {"units": busy()})

    shown = {
        result: registry.get_sample_value(
            "controller_runtime_reconcile_total", {"controller": "units", "result": result}
        )
        for result in ("success", "error", "requeue", "requeue_after")
    }

    assert shown == {"success": 1, "error": 2, "requeue": 0, "requeue_after": 0}


@pytest.mark.parametrize(("name", "expected"), PLAIN.items())
def test_a_counter_is_exported_under_its_own_name(name: str, expected: float) -> None:
    registry = CollectorRegistry()
    ControllerCollector(registry, {"units": busy()})

    assert registry.get_sample_value(name, {"controller": "units"}) == expected


def test_durations_have_the_buckets_of_controller_runtime() -> None:
    registry = CollectorRegistry()
    ControllerCollector(registry, {"units": busy()})

    (family,) = (
        family
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        if family.name == "controller_runtime_reconcile_time_seconds"
    )
    buckets = {sample.labels["le"]: sample.value for sample in family.samples if sample.name.endswith("_bucket")}

    assert len(buckets) == 41
    assert (buckets["0.01"], buckets["0.025"], buckets["60.0"], buckets["+Inf"]) == (0, 3, 3, 3)


def test_a_controller_added_later_is_exported() -> None:
    registry = CollectorRegistry()
    counters = {"units": ReconcileCounters()}
    ControllerCollector(registry, counters)

    counters["pools"] = busy()

    assert registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "pools"}) == 2
    assert registry.get_sample_value("controller_runtime_reconcile_errors_total", {"controller": "units"}) == 0


def test_a_second_collector_in_a_registry_is_refused() -> None:
    registry = CollectorRegistry()
    ControllerCollector(registry, {})

    with pytest.raises(ValueError, match="Duplicated timeseries"):
        ControllerCollector(registry, {})
