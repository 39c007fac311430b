from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.aio.backoff import Backoff, BackoffSchedule

SCHEDULE = BackoffSchedule(base=0.8, factor=2, cap=30, reset=120)


class Latest(Random):
    """Always returns the upper bound."""

    def uniform(self, a: float, b: float) -> float:
        return max(a, b)


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(SCHEDULE, Latest())

    delays = [backoff.next(now=0) for _ in range(8)]

    assert delays == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]


def test_only_a_period_without_failures_resets_the_delay() -> None:
    backoff = Backoff(SCHEDULE, Latest())
    backoff.next(now=0)
    backoff.next(now=10)

    assert backoff.next(now=10 + 1.6 + 120) == 3.2
    assert backoff.next(now=1000) == 0.8


@given(st.integers(), st.lists(st.floats(min_value=0, max_value=300), max_size=50))
def test_a_delay_is_never_shorter_than_the_base_nor_longer_than_the_cap(seed: int, pauses: list[float]) -> None:
    backoff = Backoff(SCHEDULE, Random(seed))
    now = 0.0

    for pause in pauses:
        now += pause
        assert SCHEDULE.base <= backoff.next(now) <= SCHEDULE.cap


@given(st.integers())
def test_a_server_that_always_fails_sees_at_most_one_request_a_second_after_ten_seconds(seed: int) -> None:
    backoff = Backoff(SCHEDULE, Random(seed))
    times = [0.0]
    while times[-1] < 70:
        times.append(times[-1] + backoff.next(times[-1]))

    assert len([time for time in times if 10 <= time < 70]) <= 60
