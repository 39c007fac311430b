from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.control.queueing.priorities import AGEING, LOW_PRIORITY, rank

TIMES = st.floats(0, 1e9)
PRIORITIES = st.integers(-(10**6), 10**6)


def test_a_low_priority_key_is_served_before_normal_keys_that_come_thirty_seconds_later() -> None:
    low = rank(1000.0, LOW_PRIORITY)

    assert rank(1029.9, 0) < low < rank(1030.1, 0)


@given(time=TIMES, earlier=st.floats(0, 1e9), priority=PRIORITIES)
@settings(deadline=None)
def test_keys_of_equal_priority_are_served_in_order(time: float, earlier: float, priority: int) -> None:
    assert rank(time - earlier, priority) <= rank(time, priority)


@given(first=TIMES, second=TIMES, low=PRIORITIES, high=PRIORITIES)
@settings(deadline=None)
def test_a_key_is_overtaken_only_within_the_bound(first: float, second: float, low: int, high: int) -> None:
    bound = first + (high - low) * AGEING

    overtakes = second > first and rank(second, high) < rank(first, low)

    assert not overtakes or (high > low and second <= bound + 1e-6)
