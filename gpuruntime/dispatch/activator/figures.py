"""What an activator counts, and its metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from attrs import define, field, frozen
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.api.invocations import ResultRecord
from gpuruntime.control.metrics import REQUEST_BUCKETS, Histogram
from gpuruntime.meta import ObjectKey

__all__ = ["DispatchCollector", "DispatchFigures", "FunctionSlots", "QueueDepth"]

_LONG_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)


@frozen
class QueueDepth:
    """A queue as its leader last saw it: what waits, and for how long the oldest has."""

    queued: int
    oldest_seconds: float = 0.0


@frozen
class FunctionSlots:
    """The workers of a function at this activator."""

    workers: int
    slots: int
    running: int


@define(eq=False)
class DispatchFigures:
    """Counts of one process."""

    ended: Counter[tuple[str, str]] = field(factory=Counter)
    """By state and failure class."""
    executed_twice: int = 0
    redelivered: int = 0
    given_back: int = 0
    refused_leases: int = 0
    wait: Histogram = field(factory=lambda: Histogram(_LONG_BUCKETS))
    run: Histogram = field(factory=lambda: Histogram(_LONG_BUCKETS))
    commit: Histogram = field(factory=lambda: Histogram(REQUEST_BUCKETS))
    queues: dict[ObjectKey, QueueDepth] = field(factory=dict)
    """What the leader sees; empty in other replicas."""

    def count_end(self, record: ResultRecord) -> None:
        """Count an invocation that this process has ended."""
        self.ended[record.state, record.failure_class] += 1


class DispatchCollector(Collector):
    """Exports the figures of an activator to a registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        figures: DispatchFigures,
        slots: Callable[[], Mapping[ObjectKey, FunctionSlots]],
    ) -> None:
        self._figures = figures
        self._slots = slots
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        figures = self._figures
        ended = CounterMetricFamily(
            "gpuruntime_invocations_ended",
            "Invocations that this process ended, by state and failure class.",
            labels=("state", "class"),
        )
        for (state, failure_class), count in sorted(figures.ended.items()):
            ended.add_metric((state, failure_class), count)
        yield ended
        yield CounterMetricFamily(
            "gpuruntime_invocations_executed_twice",
            "Results that came after the result of another run of the same invocation, and were dropped.",
            figures.executed_twice,
        )
        yield CounterMetricFamily(
            "gpuruntime_invocations_redelivered",
            "Deliveries that were not the first ones: a worker, an activator or NATS was lost.",
            figures.redelivered,
        )
        yield CounterMetricFamily(
            "gpuruntime_invocations_given_back",
            "Deliveries that went back to the queue before a worker had started them.",
            figures.given_back,
        )
        yield CounterMetricFamily(
            "gpuruntime_worker_leases_refused",
            "Leases that workers brought and that are not valid.",
            figures.refused_leases,
        )
        yield _histogram(
            "gpuruntime_invocation_wait_seconds", "Time from acceptance to the start of a run.", figures.wait
        )
        yield _histogram("gpuruntime_invocation_run_seconds", "Time of runs, measured by workers.", figures.run)
        yield _histogram(
            "gpuruntime_invocation_commit_seconds", "Time from the arrival of a result to its commit.", figures.commit
        )
        yield from self._workers()
        yield from self._queues()

    def _workers(self) -> Iterable[Metric]:
        labels = ("namespace", "function")
        workers = GaugeMetricFamily(
            "gpuruntime_workers_connected", "Workers that are connected to this process.", labels=labels
        )
        slots = GaugeMetricFamily("gpuruntime_worker_slots", "Slots of these workers.", labels=labels)
        running = GaugeMetricFamily("gpuruntime_invocations_running", "Runs of these workers.", labels=labels)
        for key, found in self._slots().items():
            names = (key.namespace, key.name)
            workers.add_metric(names, found.workers)
            slots.add_metric(names, found.slots)
            running.add_metric(names, found.running)
        return workers, slots, running

    def _queues(self) -> Iterable[Metric]:
        labels = ("namespace", "function")
        queued = GaugeMetricFamily(
            "gpuruntime_invocations_queued",
            "Invocations that wait for a worker; exported by the leading activator.",
            labels=labels,
        )
        oldest = GaugeMetricFamily(
            "gpuruntime_invocations_oldest_seconds",
            "For how long the oldest of these has waited; exported by the leading activator.",
            labels=labels,
        )
        for key, depth in self._figures.queues.items():
            queued.add_metric((key.namespace, key.name), depth.queued)
            oldest.add_metric((key.namespace, key.name), depth.oldest_seconds)
        return queued, oldest


def _histogram(name: str, help_text: str, found: Histogram) -> Metric:
    family = HistogramMetricFamily(name, help_text)
    family.add_metric((), found.cumulative(), found.total)
    return family
