"""Metrics of work queues, with the names and meanings of client-go and controller-runtime.

One `QueueCollector` serves all queues of a registry, because a metric may appear only once in an exposition.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.queueing.counters import PRIORITY_LIMIT, QueueCounters

__all__ = ["MeasuredQueue", "QueueCollector"]

_OTHER_PRIORITIES: Final = "exceeded_cardinality_limit"


class MeasuredQueue(Protocol):
    """What a collector needs of a queue."""

    @property
    def name(self) -> str: ...

    @property
    def counters(self) -> QueueCounters: ...

    def running_seconds(self) -> list[float]:
        """For each running key, the seconds since a worker took it."""
        ...


class QueueCollector(Collector):
    """Exports queues to a registry, each with its name in the labels `name` and `controller`.

    Guarantees:
        Values are current at the scrape, unfinished work included.

    Caveats:
        Scrape in the thread of the queues' loop. A queue is exported until it is removed, open or closed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._queues: dict[str, MeasuredQueue] = {}
        registry.register(self)

    def add(self, queue: MeasuredQueue) -> None:
        """Export a queue from now on.

        Raises:
            ValueError: another queue of that name is exported.
        """
        if queue.name in self._queues:
            raise ValueError(f"workqueue {queue.name!r} is already measured: give each queue a name of its own")
        self._queues[queue.name] = queue

    def remove(self, queue: MeasuredQueue) -> None:
        """Stop exporting a queue.

        Raises:
            KeyError: the queue is not exported.
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
            "workqueue_depth", "Current depth of workqueue by workqueue and priority.", labels=(*labels, "priority")
        )
        self._adds = CounterMetricFamily("workqueue_adds", "Total number of adds handled by workqueue.", labels=labels)
        self._retries = CounterMetricFamily(
            "workqueue_retries", "Total number of retries handled by workqueue, delayed adds included.", labels=labels
        )
        self._waited = HistogramMetricFamily(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
            labels=labels,
        )
        self._worked = HistogramMetricFamily(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            labels=labels,
        )
        self._unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. "
            "Large values indicate stuck workers.",
            labels=labels,
        )
        self._longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running.",
            labels=labels,
        )

    def all(self) -> Iterator[Metric]:
        yield from (self._depth, self._adds, self._retries, self._waited, self._worked, self._unfinished, self._longest)

    def fill(self, queue: MeasuredQueue) -> None:
        labels = (queue.name, queue.name)
        counters = queue.counters
        for priority, depth in counters.depth.items():
            self._depth.add_metric((*labels, str(priority)), depth)
        if len(counters.depth) == PRIORITY_LIMIT:
            self._depth.add_metric((*labels, _OTHER_PRIORITIES), counters.depth_of_others)
        self._adds.add_metric(labels, counters.adds)
        self._retries.add_metric(labels, counters.retries)
        self._waited.add_metric(labels, counters.waited.cumulative(), counters.waited.total)
        self._worked.add_metric(labels, counters.worked.cumulative(), counters.worked.total)
        running = queue.running_seconds()
        self._unfinished.add_metric(labels, sum(running))
        self._longest.add_metric(labels, max(running, default=0.0))
