from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.events.budget import EventBudget


def test_a_burst_is_followed_by_one_token_each_five_minutes() -> None:
    budget = EventBudget()
    burst = [budget.take("pod", 0.0) for _ in range(26)]

    later = [budget.take("pod", now) for now in (299.0, 300.0, 301.0, 600.0)]

    assert burst == [True] * 25 + [False]
    assert later == [False, True, False, True]


def test_a_quiet_object_has_its_whole_burst_again_and_no_more() -> None:
    budget = EventBudget(burst=2, refill_seconds=10.0)
    taken = [budget.take("pod", 0.0), budget.take("pod", 0.0)]

    again = [budget.take("pod", 1000.0) for _ in range(3)]

    assert taken == [True, True]
    assert again == [True, True, False]


def test_objects_do_not_share() -> None:
    budget = EventBudget(burst=1)
    budget.take("a", 0.0)

    assert budget.take("b", 0.0)
    assert not budget.take("a", 0.0)


def test_a_clock_that_is_set_back_leaves_an_empty_bucket_that_refills() -> None:
    budget = EventBudget(burst=2, refill_seconds=10.0)
    budget.take("pod", 1e6)

    at_once = budget.take("pod", 0.0)
    later = budget.take("pod", 10.0)

    assert (at_once, later) == (False, True)


@given(waits=st.lists(st.integers(0, 1000), max_size=200))
def test_no_sequence_of_wishes_gets_more_than_the_burst_and_the_refill(waits: list[int]) -> None:
    budget = EventBudget(burst=3, refill_seconds=100.0)
    now, taken = 0, 0

    for wait in waits:
        now += wait
        taken += budget.take("pod", float(now))

        assert taken <= 3 + (now - waits[0]) // 100


@given(objects=st.lists(st.integers(0, 50)))
def test_memory_is_bounded(objects: list[int]) -> None:
    budget = EventBudget(memory=10)

    for number in objects:
        budget.take(number, 0.0)

    assert len(budget) <= 10
