"""Metrics of controllers' sources: failures to map events to keys, and their retries."""

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.controllers.controller import Controller

__all__ = ["SourceCollector"]


class SourceCollector(Collector):
    """Exports the failures of controllers' sources to a registry. The sequence is read at each scrape and may grow."""

    def __init__(self, registry: CollectorRegistry, controllers: Sequence[Controller[Any]]) -> None:
        self._controllers = controllers
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        failures = CounterMetricFamily(
            "gpuruntime_source_failures",
            "Failures of triggers, predicates and timers: an exception, or a value that is not a key.",
            labels=("controller",),
        )
        retrying = GaugeMetricFamily(
            "gpuruntime_source_retrying",
            "Objects and timers that a source failed on and retries with backoff.",
            labels=("controller",),
        )
        for controller in self._controllers:
            failures.add_metric((controller.name,), controller.source_failures)
            retrying.add_metric((controller.name,), controller.source_retries)
        return failures, retrying
