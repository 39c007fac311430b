"""The metrics of Operations: those that this process works on, and all that there are."""

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, Literal, get_args

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.operation import FAILED, PENDING, RUNNING, SUCCEEDED, Operation
from gpuruntime.control import Store
from gpuruntime.control.histogram import REQUEST_BUCKETS, Histogram
from gpuruntime.meta import parse_timestamp
from gpuruntime.service.operations.record import has_ended

__all__ = ["OperationCollector", "OperationCounters", "OperationEnd"]

OperationEnd = Literal["succeeded", "failed", "withdrawn", "interrupted"]
_STATES: Final = (PENDING, RUNNING, SUCCEEDED, FAILED)


class OperationCounters:
    """What a process counts of the Operations that it works on. Every type has its figures from the start."""

    __slots__ = ("durations", "taken_over")

    def __init__(self, types: Iterable[str]) -> None:
        known = tuple(types)
        self.durations = {(type_, end): Histogram(REQUEST_BUCKETS) for type_ in known for end in get_args(OperationEnd)}
        self.taken_over = Counter(dict.fromkeys(known, 0))
        """Those that another process, or an earlier attempt of this one, had left."""

    def ended(self, type_: str, end: OperationEnd, seconds: float) -> None:
        """Count an attempt that ended, and how long it took."""
        durations = self.durations.get((type_, end))
        # A type that nobody here can work on is none to count: whoever writes Operations chooses their types.
        if durations is not None:
            durations.observe(seconds)


class OperationCollector(Collector):
    """Shows the counters of a process in a registry, and the Operations that its cache holds.

    Caveats:
        A scrape looks at every Operation in the cache.
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
            "Seconds that one attempt of this process at an operation took, by what it ended with.",
            labels=("type", "outcome"),
        )
        for labels, durations in self._counters.durations.items():
            seconds.add_metric(labels, durations.cumulative(), durations.total)
        taken_over = CounterMetricFamily(
            "gpuruntime_operation_takeovers",
            "Operations that this process went on with after another process, or an earlier attempt, had left them.",
            labels=("type",),
        )
        for type_, count in self._counters.taken_over.items():
            taken_over.add_metric((type_,), count)
        return seconds, taken_over, *self._of_the_cache()

    def _of_the_cache(self) -> tuple[Metric, Metric]:
        states = Counter(dict.fromkeys(_STATES, 0))
        unfinished = []
        for operation in self._store.list().items:
            states[operation.status.state or PENDING] += 1
            if not has_ended(operation):
                unfinished.append(operation.metadata.creation_timestamp or "")
        operations = GaugeMetricFamily(
            "gpuruntime_operations", "Operations that there are, by state.", labels=("state",)
        )
        for state, count in states.items():
            operations.add_metric((state,), count)
        age = (self._now() - parse_timestamp(min(unfinished))).total_seconds() if unfinished else 0.0
        oldest = GaugeMetricFamily(
            "gpuruntime_operation_oldest_seconds",
            "Seconds since the oldest operation that has not ended was asked for; 0 if all have.",
            max(0.0, age),
        )
        return operations, oldest
