"""Metrics of the event loop, from its watchdog."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog

__all__ = ["LoopCollector"]


class LoopCollector(Collector):
    """Exports the counters of a loop watchdog to a registry."""

    def __init__(self, registry: CollectorRegistry, watchdog: LoopWatchdog) -> None:
        self._watchdog = watchdog
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        return (
            CounterMetricFamily(
                "gpuruntime_loop_stalls", "Stalls: times that code blocked the event loop.", self._watchdog.stalls
            ),
            CounterMetricFamily(
                "gpuruntime_loop_starvations",
                "Times that the event loop was late because its thread got no CPU.",
                self._watchdog.starvations,
            ),
            GaugeMetricFamily(
                "gpuruntime_loop_longest_stall_seconds",
                "Longest delay of the event loop since the start, in seconds.",
                self._watchdog.longest_seconds,
            ),
        )
