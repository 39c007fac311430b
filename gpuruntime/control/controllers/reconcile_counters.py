"""Counters of one controller, as plain numbers that are collected at scrape."""

from typing import Final, Literal, get_args

from gpuruntime.control.histogram import Histogram

__all__ = ["RECONCILE_BUCKETS", "ReconcileCounters", "ReconcileResult"]

ReconcileResult = Literal["success", "error", "requeue", "requeue_after"]

# controller-runtime's, so that buckets of our controllers add up with those of controllers in Go.
# fmt: off
RECONCILE_BUCKETS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0,
    1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
    15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
)
# fmt: on


class ReconcileCounters:
    """Counters of one controller, incremented by its workers.

    Guarantees:
        Every result has a counter from the start, so that the rate of the first one is visible.

    Caveats:
        There is no counter of panics: an unexpected exception is an error like any other.
    """

    __slots__ = (
        "active_workers",
        "cache_waits",
        "conflicts",
        "durations",
        "hot_loops",
        "live_reads",
        "max_concurrent",
        "results",
        "terminal_errors",
        "timeouts",
    )

    def __init__(self, max_concurrent: int = 1) -> None:
        self.max_concurrent = max_concurrent
        """Maximum number of concurrent reconciles."""
        self.active_workers = 0
        """Number of workers that reconcile now."""
        self.results: dict[ReconcileResult, int] = dict.fromkeys(get_args(ReconcileResult), 0)
        self.durations = Histogram(RECONCILE_BUCKETS)
        self.terminal_errors = 0
        """Errors that are not retried."""
        self.timeouts = 0
        """Errors of reconciles that were cancelled at the reconcile timeout."""
        self.live_reads = 0
        """Live reads because the cache did not show our own write in time."""
        self.cache_waits = 0
        """Waits until the cache showed our own write."""
        self.conflicts = 0
        """Writes that the server refused because the object had changed."""
        self.hot_loops = 0
        """Times that a write was found to be undone, by us or by another field manager."""

    @property
    def errors(self) -> int:
        """Reconciles that ended with an error, the terminal ones and the timeouts included."""
        return self.results["error"]

    def finished(self, result: ReconcileResult, seconds: float) -> None:
        """Count a reconcile and its duration. Terminal errors and timeouts are counted separately as well."""
        self.results[result] += 1
        self.durations.observe(seconds)
