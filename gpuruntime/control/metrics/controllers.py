"""Metrics of controllers, with the names and help of controller-runtime where it has them."""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from gpuruntime.control.controllers.reconcile_counters import ReconcileCounters

__all__ = ["ControllerCollector"]


class ControllerCollector(Collector):
    """Exports the counters of controllers to a registry, each with its name in the label `controller`.

    Guarantees:
        Every series of a controller exists from the first scrape on. Values are current at the scrape.

    Caveats:
        The mapping is read at each scrape, so it may grow. Scrape in the thread of the controllers' loop.
        controller_runtime_reconcile_panics_total is missing on purpose: Python raises errors where Go panics.
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
            "controller_runtime_reconcile",
            "Total number of reconciliations per controller and result.",
            labels=("controller", "result"),
        )
        self._errors = _counter(
            "controller_runtime_reconcile_errors",
            "Total number of reconciliation errors per controller, terminal errors and timeouts included.",
        )
        self._terminal = _counter(
            "controller_runtime_terminal_reconcile_errors",
            "Total number of terminal reconciliation errors per controller, which are not retried.",
        )
        self._timeouts = _counter(
            "controller_runtime_reconcile_timeouts", "Total number of reconciliation timeouts per controller."
        )
        self._durations = HistogramMetricFamily(
            "controller_runtime_reconcile_time_seconds",
            "Length of time per reconciliation per controller.",
            labels=("controller",),
        )
        self._workers = _gauge(
            "controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller."
        )
        self._active = _gauge("controller_runtime_active_workers", "Number of currently used workers per controller.")
        self._live_reads = _counter(
            "gpuruntime_reconcile_live_reads",
            "Live reads because the cache did not show the controller's own write in time.",
        )
        self._cache_waits = _counter(
            "gpuruntime_reconcile_cache_waits", "Waits for the cache to show the controller's own write."
        )
        self._conflicts = _counter(
            "gpuruntime_reconcile_conflicts", "Write conflicts: updates refused because the object had changed."
        )
        self._hot_loops = _counter(
            "gpuruntime_reconcile_hot_loops",
            "Reconciles that ended because their write keeps being undone, by the controller or another field manager.",
        )

    def all(self) -> Iterator[Metric]:
        yield from (self._results, self._errors, self._terminal, self._timeouts, self._durations)
        yield from (self._workers, self._active)
        yield from (self._live_reads, self._cache_waits, self._conflicts, self._hot_loops)

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
            (self._hot_loops, counters.hot_loops),
        ):
            family.add_metric((name,), value)


def _counter(name: str, help_text: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, help_text, labels=("controller",))


def _gauge(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_text, labels=("controller",))
