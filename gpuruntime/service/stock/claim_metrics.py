"""The metrics of claims: how long they take, what comes of them, how often somebody was faster."""

from collections.abc import Iterable
from typing import Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.histogram import REQUEST_BUCKETS, Histogram

__all__ = ["ClaimCollector", "ClaimCounters", "ClaimOutcome"]

ClaimOutcome = Literal["claimed", "insufficient", "error"]


class ClaimCounters:
    """What a process counts of its claims. Every outcome has its figure from the start."""

    __slots__ = ("conflicts", "durations")

    def __init__(self) -> None:
        self.durations: dict[ClaimOutcome, Histogram] = {
            outcome: Histogram(REQUEST_BUCKETS) for outcome in get_args(ClaimOutcome)
        }
        self.conflicts = 0
        """Times that a candidate was gone, or another than it was seen, when it was to be claimed."""

    def ended(self, outcome: ClaimOutcome, seconds: float) -> None:
        """Count a claim that ended."""
        self.durations[outcome].observe(seconds)

    def turned_away(self) -> None:
        """Count a request that was refused without a try, because the cache shows nothing to claim."""
        self.ended("insufficient", 0.0)


class ClaimCollector(Collector):
    """Shows the counters in a registry."""

    def __init__(self, registry: CollectorRegistry, counters: ClaimCounters) -> None:
        self._counters = counters
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        seconds = HistogramMetricFamily(
            "gpuruntime_claim_seconds",
            "Seconds from wanting a stock unit to having one or not; refused without a try counts as 0.",
            labels=("outcome",),
        )
        for outcome, durations in self._counters.durations.items():
            seconds.add_metric((outcome,), durations.cumulative(), durations.total)
        conflicts = CounterMetricFamily(
            "gpuruntime_claim_conflicts",
            "Times that somebody was faster, or the stock unit had changed, and the next one was tried.",
            self._counters.conflicts,
        )
        return seconds, conflicts
