"""Metrics of claims: duration by outcome, and conflicts."""

from collections.abc import Iterable
from typing import Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.metrics import REQUEST_BUCKETS, Histogram

__all__ = ["ClaimCollector", "ClaimCounters", "ClaimOutcome"]

ClaimOutcome = Literal["claimed", "insufficient", "error"]


class ClaimCounters:
    """Counters of the claims of a process. Every outcome has its series from the start."""

    __slots__ = ("conflicts", "durations")

    def __init__(self) -> None:
        self.durations: dict[ClaimOutcome, Histogram] = {
            outcome: Histogram(REQUEST_BUCKETS) for outcome in get_args(ClaimOutcome)
        }
        self.conflicts = 0
        """Claims that failed because the stock unit had changed or was gone."""

    def ended(self, outcome: ClaimOutcome, seconds: float) -> None:
        """Count a claim that ended, with its duration."""
        self.durations[outcome].observe(seconds)

    def rejected(self) -> None:
        """Count a request that was rejected without an attempt, because the cache shows nothing to claim."""
        self.ended("insufficient", 0.0)


class ClaimCollector(Collector):
    """Collects the counters of claims."""

    def __init__(self, registry: CollectorRegistry, counters: ClaimCounters) -> None:
        self._counters = counters
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        seconds = HistogramMetricFamily(
            "gpuruntime_claim_seconds",
            "Duration of a claim of a stock unit, in seconds, by outcome; a rejection without an attempt counts as 0.",
            labels=("outcome",),
        )
        for outcome, durations in self._counters.durations.items():
            seconds.add_metric((outcome,), durations.cumulative(), durations.total)
        conflicts = CounterMetricFamily(
            "gpuruntime_claim_conflicts",
            "Claims of a stock unit that failed because it had changed or was gone; the next one is tried.",
            self._counters.conflicts,
        )
        return seconds, conflicts
