"""For how long a container that restarted has to stay up: one row a history."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta import format_seconds
from gpuruntime.reconcilers.gpuunit.uptime import ends_in_a_row, missing_uptime, required_uptime
from gpuruntime.reconcilers.pod_summary import ContainerSummary, Ending

START = datetime(2026, 1, 1, tzinfo=UTC)


def lived(seconds: float) -> Ending:
    return Ending(1, seconds=seconds)


def running(restarts: int, ended_before: Ending | None, after: float = 0.0) -> ContainerSummary:
    started = format_seconds(START + timedelta(seconds=after))
    return ContainerSummary("x", restarts=restarts, started_at=started, is_ready=True, ended_before=ended_before)


@pytest.mark.parametrize(
    ("restarts", "seconds", "required"),
    [
        (1, 0, 10),
        (2, 0, 20),
        (3, 0, 40),
        (4, 0, 60),
        (5000, 0, 60),
        (1, 4, 10),
        (1, 20, 40),
        (9, 100, 200),
        (1, 599, 300),
        # Ten minutes are no crash loop, however often it ended before.
        (1, 600, 3),
        (50, 86400, 3),
    ],
)
def test_the_time_to_stay_up_grows_with_the_ends_and_with_the_last_lifetime(
    restarts: int, seconds: float, required: float
) -> None:
    assert required_uptime(running(restarts, lived(seconds)), 3.0) == required


def test_a_container_that_never_ended_is_the_deployment_s_to_judge() -> None:
    assert required_uptime(running(0, None), 3.0) == 0.0
    assert missing_uptime(running(0, None), 3.0, START) == 0.0


def test_min_ready_seconds_is_a_lower_bound() -> None:
    assert required_uptime(running(1, lived(0)), 120.0) == 120.0


@given(st.integers(1, 100), st.floats(0, 299))
def test_a_program_that_always_lives_for_the_same_time_is_never_up_after_its_first_end(
    restarts: int, lifetime: float
) -> None:
    container = running(restarts, lived(lifetime))

    last_moment = START + timedelta(seconds=lifetime)

    assert missing_uptime(container, 0.0, last_moment) > 0


@given(st.integers(0, 50), st.floats(0, 10_000))
def test_ends_are_counted_alike_from_one_end_to_the_next(restarts: int, seconds: float) -> None:
    ending = lived(seconds)
    moments = [
        ContainerSummary("x", restarts=restarts, ended=ending),
        ContainerSummary("x", restarts=restarts, waiting_reason="CrashLoopBackOff", ended_before=ending),
        ContainerSummary("x", restarts=restarts, waiting_reason="RunContainerError", ended_before=ending),
        ContainerSummary("x", restarts=restarts + 1, ended_before=ending),
        running(restarts + 1, ending),
    ]

    assert len({ends_in_a_row(moment) for moment in moments}) == 1
    assert len({required_uptime(moment, 3.0) for moment in moments}) == 1
