"""Metrics of an event recorder."""

from collections.abc import Iterable
from typing import Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.events.correlator import EventCounters

__all__ = ["CountedRecorder", "EventCollector"]


class CountedRecorder(Protocol):
    """What a collector needs of a recorder."""

    @property
    def counters(self) -> EventCounters: ...

    @property
    def depth(self) -> int:
        """The number of queued events."""


class EventCollector(Collector):
    """Exports the counters of an event recorder to a registry."""

    def __init__(self, registry: CollectorRegistry, recorder: CountedRecorder) -> None:
        self._recorder = recorder
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        counters = self._recorder.counters
        dropped = CounterMetricFamily(
            "gpuruntime_events_dropped", "Events dropped before delivery, by cause.", labels=("cause",)
        )
        for cause, count in counters.dropped.items():
            dropped.add_metric((cause.value,), count)
        return (
            CounterMetricFamily("gpuruntime_events_sent", "Events created on the server.", counters.sent),
            CounterMetricFamily(
                "gpuruntime_events_patched", "Updates of existing events, such as series counts.", counters.patched
            ),
            CounterMetricFamily(
                "gpuruntime_events_failed",
                "Event writes that the server refused or that ran out of retries.",
                counters.failed,
            ),
            dropped,
            GaugeMetricFamily("gpuruntime_events_waiting", "Events queued for delivery.", self._recorder.depth),
        )
