"""How fast a pool may make stock."""

import pytest

from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.refill_pace import Pace, RefillPace

POOL = ObjectKey("stock", "warm")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_a_pool_has_a_burst_and_then_a_rate() -> None:
    clock = Clock()
    pace = RefillPace(Pace(burst=3, per_second=2.0), clock)

    at_first = pace.allowance(POOL)
    pace.spend(POOL, 3)
    spent, wait = pace.allowance(POOL), pace.wait(POOL)
    clock.time += 1.0
    after_a_second = pace.allowance(POOL)
    clock.time += 100.0
    after_long = pace.allowance(POOL)

    assert (at_first, spent, wait, after_a_second, after_long) == (3, 0, 0.5, 2, 3)


def test_pools_have_a_pace_each_and_one_that_is_gone_is_forgotten() -> None:
    pace = RefillPace(Pace(burst=2), Clock())

    pace.spend(POOL, 2)
    others = pace.allowance(ObjectKey("stock", "other"))
    pace.forget(POOL)

    assert (others, pace.allowance(POOL)) == (2, 2)


@pytest.mark.parametrize(("burst", "per_second"), [(0, 1.0), (1, 0.0)])
def test_a_pace_at_which_nothing_would_ever_be_made_is_refused(burst: int, per_second: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        Pace(burst, per_second)
