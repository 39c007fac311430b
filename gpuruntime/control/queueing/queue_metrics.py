"""The metrics of workqueues, under the names that client-go and controller-runtime made known.

A queue counts in plain numbers; they become samples when somebody scrapes. One `QueueCollector` serves all queues of a
registry, because a metric may appear only once in an exposition.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate, repeat
from operator import mul
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.histogram import Histogram

__all__ = ["DURATION_BUCKETS", "MeasuredQueue", "QueueCollector", "QueueCounters"]

# 10 ns to 1000 s. Multiplied up as Go does it, rounding included ("9.999999999999999e-06"): the bounds are label
# values, and buckets of our controllers must add up with those of controllers in Go.
DURATION_BUCKETS: Final = tuple(accumulate(repeat(10.0, 11), mul, initial=1e-8))

_PRIORITIES_SHOWN: Final = 25
_OTHER_PRIORITIES: Final = "exceeded_cardinality_limit"


class QueueCounters:
    """What one queue counts.

    Guarantees:
        Memory does not grow with the priorities in use: the first 25 are told apart, the others are counted together.
    """

    __slots__ = ("adds", "depth", "depth_of_others", "retries", "waited", "worked")

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.depth = {0: 0}
        self.depth_of_others = 0
        self.waited = Histogram(DURATION_BUCKETS)
        self.worked = Histogram(DURATION_BUCKETS)

    def count_depth(self, priority: int, change: int) -> None:
        """Note that a key of this priority began (1) or ceased (-1) to be ready."""
        try:
            self.depth[priority] += change
        except KeyError:
            if len(self.depth) < _PRIORITIES_SHOWN:
                self.depth[priority] = change
            else:
                # A priority once counted here always is, since none ever leaves `depth`.
                self.depth_of_others += change

    def total_depth(self) -> int:
        return sum(self.depth.values()) + self.depth_of_others


class MeasuredQueue(Protocol):
    """What a collector needs of a queue."""

    @property
    def name(self) -> str: ...

    @property
    def counters(self) -> QueueCounters: ...

    def running_seconds(self) -> list[float]:
        """For each key that a worker holds, how long it has held it."""
        ...


class QueueCollector(Collector):
    """Shows queues in a registry, each under its name, which stands in the labels `name` and `controller`.

    Guarantees:
        Numbers are those of the moment of the scrape, those of unfinished work included.

    Caveats:
        Scrape in the thread of the queues' loop. A queue is shown until it is removed, open or closed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queues: dict[str, MeasuredQueue] = {}
        registry.register(self)

    def add(self, queue: MeasuredQueue) -> None:
        """Show a queue from now on.

        Raises:
            ValueError: another queue of that name is shown.
        """
        if queue.name in self._queues:
            raise ValueError(f"workqueue {queue.name!r} is already measured: give each queue a name of its own")
        self._queues[queue.name] = queue

    def remove(self, queue: MeasuredQueue) -> None:
        """Show a queue no longer.

        Raises:
            KeyError: it was not shown.
        """
        del self._queues[queue.name]

    def describe(self) -> Iterable[Metric]:
        return _Families().all()

    def collect(self) -> Iterable[Metric]:
        families = _Families()
        for queue in self._queues.values():
            families.fill(queue)
        return families.all()


class _Families:
    """The metrics of one scrape."""

    def __init__(self) -> None:
        labels = ("name", "controller")
        self._depth = GaugeMetricFamily(
            "workqueue_depth", "Keys that are ready to be worked on, by priority.", labels=(*labels, "priority")
        )
        self._adds = CounterMetricFamily("workqueue_adds", "Times that a key became ready.", labels=labels)
        self._retries = CounterMetricFamily(
            "workqueue_retries", "Adds with a delay, those that a reconcile asked for included.", labels=labels
        )
        self._waited = HistogramMetricFamily(
            "workqueue_queue_duration_seconds", "Seconds from a key being ready to a worker taking it.", labels=labels
        )
        self._worked = HistogramMetricFamily(
            "workqueue_work_duration_seconds", "Seconds that a worker held a key.", labels=labels
        )
        self._unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "Seconds that workers have held the keys they hold now, all together.",
            labels=labels,
        )
        self._longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds that a worker has held the key that is held longest.",
            labels=labels,
        )

    def all(self) -> Iterator[Metric]:
        yield from (self._depth, self._adds, self._retries, self._waited, self._worked, self._unfinished, self._longest)

    def fill(self, queue: MeasuredQueue) -> None:
        labels = (queue.name, queue.name)
        counters = queue.counters
        for priority, depth in counters.depth.items():
            self._depth.add_metric((*labels, str(priority)), depth)
        if len(counters.depth) == _PRIORITIES_SHOWN:
            self._depth.add_metric((*labels, _OTHER_PRIORITIES), counters.depth_of_others)
        self._adds.add_metric(labels, counters.adds)
        self._retries.add_metric(labels, counters.retries)
        self._waited.add_metric(labels, counters.waited.cumulative(), counters.waited.total)
        self._worked.add_metric(labels, counters.worked.cumulative(), counters.worked.total)
        running = queue.running_seconds()
        self._unfinished.add_metric(labels, sum(running))
        self._longest.add_metric(labels, max(running, default=0.0))
