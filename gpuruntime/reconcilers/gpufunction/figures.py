"""Metrics of functions, counted in the cache of the reconciler at each scrape."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.gpufunction import FunctionWorkers, GPUFunction
from gpuruntime.api.reasons import FAILED, PAUSED, PENDING, PROGRESSING, READY
from gpuruntime.control import Store

__all__ = ["FunctionCollector"]

_PHASES: Final = (PENDING, PROGRESSING, READY, PAUSED, FAILED)
_STATES: Final = ("desired", "ready", "starting", "draining")


class FunctionCollector(Collector):
    """Exports functions by phase, and their workers by state.

    Guarantees: a replica that does not lead has no functions in its cache, so that a sum over replicas is right. Every
    value of a label is of a fixed set.
    """

    def __init__(self, registry: CollectorRegistry, functions: Store[GPUFunction]) -> None:
        self._functions = functions
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        phases, workers = Counter(dict.fromkeys(_PHASES, 0)), Counter(dict.fromkeys(_STATES, 0))
        for function in self._functions.list().items:
            phase, numbers = function.status.phase, function.status.workers or FunctionWorkers()
            phases[phase if phase in _PHASES else PENDING] += 1
            workers.update({state: getattr(numbers, state) or 0 for state in _STATES})
        return (
            _gauge("gpuruntime_functions", "Functions, by phase; Pending: not reconciled yet.", "phase", phases),
            _gauge(
                "gpuruntime_function_workers",
                "Workers of all functions: desired, ready, starting (failed ones included), and draining.",
                "state",
                workers,
            ),
        )


def _gauge(name: str, documentation: str, label: str, figures: Counter[str]) -> Metric:
    family = GaugeMetricFamily(name, documentation, labels=(label,))
    for value, count in figures.items():
        family.add_metric((value,), count)
    return family
