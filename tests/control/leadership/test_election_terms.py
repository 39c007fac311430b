from datetime import UTC, datetime
from typing import Any

import pytest

from gpuruntime.control.leadership.election_terms import ElectionTiming, Term


def test_the_times_are_those_of_client_go() -> None:
    timing = ElectionTiming()

    assert (timing.lease, timing.renew, timing.retry) == (15, 10.0, 2.0)
    assert timing.attempt == 5.0


def test_a_try_is_given_a_second_however_short_the_times_are() -> None:
    timing = ElectionTiming(lease=3, renew=1.5, retry=0.5)

    assert timing.attempt == 1.0


@pytest.mark.parametrize(
    ("lease", "renew", "retry"),
    [(10, 10.0, 2.0), (10, 11.0, 2.0), (15, 10.0, 8.5), (15, 1.2, 1.0), (15, 10.0, 0.0), (15, float("nan"), 2.0)],
)
def test_times_that_leave_no_room_for_trying_and_stopping_are_refused(lease: int, renew: float, retry: float) -> None:
    with pytest.raises(ValueError, match=f"lease {lease} s.* retry {retry:g} s"):
        ElectionTiming(lease, renew, retry)


@pytest.mark.parametrize("lease", [15.5, 15.0, True])
def test_a_lease_lasts_whole_seconds_because_the_record_has_no_others(lease: Any) -> None:
    with pytest.raises(ValueError, match=f"lease .*{lease!r}"):
        ElectionTiming(lease, 0.5, 0.1)


def test_a_term_is_a_value() -> None:
    since = datetime(2026, 1, 2, tzinfo=UTC)

    assert Term("one", 3, since) == Term("one", 3, since)
    assert len({Term("one", 3, since), Term("one", 4, since)}) == 2
