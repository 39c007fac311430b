"""The metrics of controllers' sources: what cannot be turned into keys, and is tried again."""

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.controllers.controller import Controller

__all__ = ["SourceCollector"]


class SourceCollector(Collector):
    """Shows in a registry how the sources of controllers fare. The sequence may grow meanwhile."""

    def __init__(self, registry: CollectorRegistry, controllers: Sequence[Controller[Any]]) -> None:
        self._controllers = controllers
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        failures = CounterMetricFamily(
            "gpuruntime_source_failures",
            "Times that a trigger or a predicate raised or gave what is no key, or that the keys of a timer failed.",
            labels=("controller",),
        )
        retrying = GaugeMetricFamily(
            "gpuruntime_source_retrying",
            "Objects, and timers, that a source failed on and that are retried with backoff.",
            labels=("controller",),
        )
        for controller in self._controllers:
            failures.add_metric((controller.name,), controller.source_failures)
            retrying.add_metric((controller.name,), controller.source_retries)
        return failures, retrying
