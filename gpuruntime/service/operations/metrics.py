"""Metrics of Operations: attempts of this process, and the Operations in its cache by state."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.operation import FAILED, PENDING, RUNNING, SUCCEEDED, Operation
from gpuruntime.control import Store
from gpuruntime.control.metrics import REQUEST_BUCKETS, Histogram
from gpuruntime.meta import parse_timestamp
from gpuruntime.service.operations.record import has_ended

__all__ = ["OperationCollector", "OperationCounters", "OperationEnd"]

OperationEnd = Literal["succeeded", "failed", "withdrawn", "interrupted"]
_STATES: Final = (PENDING, RUNNING, SUCCEEDED, FAILED)


class OperationCounters:
    """Counters of the Operations that this process works on. Every type has its series from the start."""

    __slots__ = ("durations", "taken_over")

    def __init__(self, types: Iterable[str]) -> None:
        known = tuple(types)
        self.durations = {(type_, end): Histogram(REQUEST_BUCKETS) for type_ in known for end in get_args(OperationEnd)}
        self.taken_over = Counter(dict.fromkeys(known, 0))
        """Operations that were taken over from another process, or from an earlier attempt of this one."""

    def ended(self, type_: str, end: OperationEnd, seconds: float) -> None:
        """Count an attempt that ended, with its duration."""
        durations = self.durations.get((type_, end))
        # An unknown type gets no series: users with write access to Operations could choose any number of types.
        if durations is not None:
            durations.observe(seconds)


class OperationCollector(Collector):
    """Collects the counters of a process, and the Operations of its cache by state.

    Caveats:
        A scrape iterates over every Operation in the cache.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        counters: OperationCounters,
        store: Store[Operation],
        now: Callable[[], datetime],
    ) -> None:
        self._counters = counters
        self._store = store
        self._now = now
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        seconds = HistogramMetricFamily(
            "gpuruntime_operation_seconds",
            "Duration of one attempt at an Operation in this process, in seconds, by type and outcome.",
            labels=("type", "outcome"),
        )
        for labels, durations in self._counters.durations.items():
            seconds.add_metric(labels, durations.cumulative(), durations.total)
        taken_over = CounterMetricFamily(
            "gpuruntime_operation_takeovers",
            "Operations that this process took over after their owner stopped renewing its lease, by type.",
            labels=("type",),
        )
        for type_, count in self._counters.taken_over.items():
            taken_over.add_metric((type_,), count)
        return seconds, taken_over, *self._cached()

    def _cached(self) -> tuple[Metric, Metric]:
        states = Counter(dict.fromkeys(_STATES, 0))
        unfinished = []
        for operation in self._store.list().items:
            states[operation.status.state or PENDING] += 1
            if not has_ended(operation):
                unfinished.append(operation.metadata.creation_timestamp or "")
        operations = GaugeMetricFamily(
            "gpuruntime_operations", "Operations in the cluster, by state.", labels=("state",)
        )
        for state, count in states.items():
            operations.add_metric((state,), count)
        age = (self._now() - parse_timestamp(min(unfinished))).total_seconds() if unfinished else 0.0
        oldest = GaugeMetricFamily(
            "gpuruntime_operation_oldest_seconds",
            "Age of the oldest Operation that has not ended, in seconds; 0 if all have ended.",
            max(0.0, age),
        )
        return operations, oldest
