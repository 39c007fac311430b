"""The metrics of the event loop, as its watchdog sees it."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog

__all__ = ["LoopCollector"]


class LoopCollector(Collector):
    """Shows in a registry what a watchdog counts."""

    def __init__(self, registry: CollectorRegistry, watchdog: LoopWatchdog) -> None:
        self._watchdog = watchdog
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return (
            CounterMetricFamily(
                "gpuruntime_loop_stalls", "Times that something blocked the event loop.", self._watchdog.stalls
            ),
            CounterMetricFamily(
                "gpuruntime_loop_starvations",
                "Times that the event loop was late because its thread got no CPU.",
                self._watchdog.starvations,
            ),
            GaugeMetricFamily(
                "gpuruntime_loop_longest_stall_seconds",
                "Seconds that the event loop was late by, at the worst time since the start.",
                self._watchdog.longest_seconds,
            ),
        )
