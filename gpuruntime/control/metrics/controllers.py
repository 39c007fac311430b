"""The metrics of controllers, under controller-runtime's names where it has them."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters

__all__ = ["ControllerCollector"]


class ControllerCollector(Collector):
    """Shows the counters of controllers in a registry, each under its name in the label `controller`.

    Guarantees:
        Every series of a controller is there from the first scrape on, and the numbers are those of the scrape.

    Caveats:
        The mapping is read at each scrape, so it may grow meanwhile. Scrape in the thread of the controllers' loop.
        controller_runtime_reconcile_panics_total is missing on purpose: Python has errors where Go panics.
    """

    def __init__(self, registry: CollectorRegistry, counters: Mapping[str, ReconcileCounters]) -> None:
        self._counters = counters
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        return _Families().all()

    def collect(self) -> Iterable[Metric]:
        families = _Families()
        for name, counters in self._counters.items():
            families.fill(name, counters)
        return families.all()


class _Families:
    """The metrics of one scrape."""

    def __init__(self) -> None:
        self._results = CounterMetricFamily(
            "controller_runtime_reconcile", "Reconciles that ended, by result.", labels=("controller", "result")
        )
        self._errors = _counter(
            "controller_runtime_reconcile_errors",
            "Reconciles that ended with an error, the terminal ones and the timeouts included.",
        )
        self._terminal = _counter(
            "controller_runtime_terminal_reconcile_errors",
            "Reconciles that ended with an error that is not retried until something changes.",
        )
        self._timeouts = _counter(
            "controller_runtime_reconcile_timeouts", "Reconciles that the controller's own deadline cut off."
        )
        self._durations = HistogramMetricFamily(
            "controller_runtime_reconcile_time_seconds", "Seconds that a reconcile took.", labels=("controller",)
        )
        self._workers = _gauge("controller_runtime_max_concurrent_reconciles", "Workers that there are.")
        self._active = _gauge("controller_runtime_active_workers", "Workers that reconcile now.")
        self._live_reads = _counter(
            "gpuruntime_reconcile_live_reads",
            "Reads from the server because the cache did not show the controller's own write in time.",
        )
        self._cache_waits = _counter(
            "gpuruntime_reconcile_cache_waits", "Waits until the cache showed the controller's own write."
        )
        self._conflicts = _counter(
            "gpuruntime_reconcile_conflicts", "Writes that the server refused because the object had changed."
        )
        self._fights = _counter(
            "gpuruntime_reconcile_fights",
            "Times that a write was found to be undone, by the controller itself or by another field manager.",
        )

    def all(self) -> Iterator[Metric]:
        yield from (self._results, self._errors, self._terminal, self._timeouts, self._durations)
        yield from (self._workers, self._active)
        yield from (self._live_reads, self._cache_waits, self._conflicts, self._fights)

    def fill(self, name: str, counters: ReconcileCounters) -> None:
        for result, count in counters.results.items():
            self._results.add_metric((name, result), count)
        self._durations.add_metric((name,), counters.durations.cumulative(), counters.durations.total)
        for family, value in (
            (self._errors, counters.errors),
            (self._terminal, counters.terminal_errors),
            (self._timeouts, counters.timeouts),
            (self._workers, counters.max_concurrent),
            (self._active, counters.active_workers),
            (self._live_reads, counters.live_reads),
            (self._cache_waits, counters.cache_waits),
            (self._conflicts, counters.conflicts),
            (self._fights, counters.fights),
        ):
            family.add_metric((name,), value)


def _counter(name: str, meaning: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, meaning, labels=("controller",))


def _gauge(name: str, meaning: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=("controller",))
