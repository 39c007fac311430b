from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.controllers.reconcile_counters import RECONCILE_BUCKETS, ReconcileCounters
from gpuruntime.control.histogram import Histogram


def test_every_result_has_its_figure_from_the_start() -> None:
    counters = ReconcileCounters(max_concurrent=3)

    assert counters.results == {"success": 0, "error": 0, "requeue": 0, "requeue_after": 0}
    assert counters.max_concurrent == 3


def test_an_error_is_a_result_and_the_other_results_are_none() -> None:
    counters = ReconcileCounters()

    counters.finished("error", 0.5)
    counters.finished("success", 1.5)
    counters.finished("error", 2.0)

    assert counters.errors == 2
    assert counters.results["success"] == 1
    assert counters.durations.total == 4.0


@given(st.lists(st.floats(0, 100)))
def test_a_bucket_counts_what_is_not_above_its_bound(observed: list[float]) -> None:
    durations = Histogram(RECONCILE_BUCKETS)

    for seconds in observed:
        durations.observe(seconds)

    counts = [count for _, count in durations.cumulative()]
    assert counts[:-1] == [sum(seconds <= bound for seconds in observed) for bound in RECONCILE_BUCKETS]
    assert counts[-1] == len(observed)
    assert durations.total == sum(observed)
