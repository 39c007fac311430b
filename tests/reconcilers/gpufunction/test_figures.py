"""Functions and workers are counted at each scrape."""

from typing import Any

from prometheus_client import CollectorRegistry

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.control import Store, eager
from gpuruntime.control.informers.store import StoreWriter
from gpuruntime.reconcilers.gpufunction.figures import FunctionCollector


def test_functions_are_counted_by_phase_and_workers_by_state() -> None:
    store = Store(eager(GPUFunction))
    writer, registry = StoreWriter(store), CollectorRegistry()
    FunctionCollector(registry, store)
    statuses: tuple[dict[str, Any], ...] = (
        {"phase": "Ready", "workers": {"desired": 2, "ready": 2, "starting": 0, "draining": 1}},
        {"phase": "Failed", "workers": {"desired": 3, "ready": 1, "starting": 2, "draining": 0}},
        {"phase": "Odd"},
        {},
    )
    for number, status in enumerate(statuses):
        meta = {"name": f"f{number}", "namespace": "active", "uid": str(number), "resourceVersion": "1"}
        writer.upsert(None, {"metadata": meta, "spec": {"specName": "g1.1"}, "status": status}, 100)

    def figure(name: str, label: str, value: str) -> float | None:
        return registry.get_sample_value(name, {label: value})

    phases = {
        phase: figure("gpuruntime_functions", "phase", phase) for phase in ("Pending", "Ready", "Failed", "Paused")
    }
    workers = [
        figure("gpuruntime_function_workers", "state", state) for state in ("desired", "ready", "starting", "draining")
    ]
    assert phases == {"Pending": 2, "Ready": 1, "Failed": 1, "Paused": 0}
    assert workers == [5, 3, 2, 1]
