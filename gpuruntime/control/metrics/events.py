"""The metrics of an event recorder."""

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.events.counters import EventCounters

__all__ = ["CountedRecorder", "EventCollector"]


class CountedRecorder(Protocol):
    """What a collector needs of a recorder."""

    @property
    def counters(self) -> EventCounters: ...

    @property
    def depth(self) -> int:
        """How many events wait to be sent."""


class EventCollector(Collector):
    """Shows in a registry what became of the events that were recorded."""

    def __init__(self, registry: CollectorRegistry, recorder: CountedRecorder) -> None:
        self._recorder = recorder
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        counters = self._recorder.counters
        dropped = CounterMetricFamily(
            "gpuruntime_events_dropped", "Occurrences that nobody was told of, by cause.", labels=("cause",)
        )
        for cause, count in counters.dropped.items():
            dropped.add_metric((cause.value,), count)
        return (
            CounterMetricFamily("gpuruntime_events_sent", "Events that were created on the server.", counters.sent),
            CounterMetricFamily(
                "gpuruntime_events_patched", "Updates of events that had been created before.", counters.patched
            ),
            CounterMetricFamily(
                "gpuruntime_events_failed",
                "Writes of events that the server refused, or that were given up.",
                counters.failed,
            ),
            dropped,
            GaugeMetricFamily("gpuruntime_events_waiting", "Events that wait to be sent.", self._recorder.depth),
        )
