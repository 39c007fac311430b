import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuruntime.control.queueing.rate_limiter import RateLimiter


def test_delays_are_those_of_client_go() -> None:
    limits = RateLimiter()

    delays = [limits.delay(failures) for failures in (0, 1, 2, 3, 17, 18, 19)]

    assert delays == [0.005, 0.01, 0.02, 0.04, 655.36, 1000.0, 1000.0]


@given(failures=st.integers(0, 10**12), chance=st.floats(0, 1), jitter=st.floats(0, 1))
@settings(deadline=None)
def test_no_number_of_failures_overflows_or_exceeds_the_cap(failures: int, chance: float, jitter: float) -> None:
    limits = RateLimiter(base=0.005, cap=1000.0, jitter=jitter)

    full, delay = limits.delay(failures), limits.delay(failures, chance)

    assert full * (1 - jitter) <= delay * (1 + 1e-12)
    assert delay <= full <= limits.delay(failures + 1) <= 1000.0


@given(base=st.floats(5e-324, 1e308))
@settings(deadline=None)
def test_any_base_reaches_any_cap(base: float) -> None:
    limits = RateLimiter(base=base, cap=1e308)

    assert limits.delay(0) == base
    assert limits.delay(2100) == 1e308


@pytest.mark.parametrize(("base", "cap"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_an_invalid_base_or_cap_is_refused(base: float, cap: float) -> None:
    with pytest.raises(ValueError, match=r"base.* cap"):
        RateLimiter(base=base, cap=cap)


@pytest.mark.parametrize("jitter", [-0.1, 1.1, math.nan])
def test_a_jitter_that_is_no_share_is_refused(jitter: float) -> None:
    with pytest.raises(ValueError, match=f"{jitter}"):
        RateLimiter(jitter=jitter)
