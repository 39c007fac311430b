import pytest

from gpuruntime.dispatch.activator.runs.verdicts import Act, Sighting, Verdict, decide

RUN, LEAVE, ACKNOWLEDGE = Act.RUN, Act.LEAVE, Act.ACKNOWLEDGE
LOST, EXHAUSTED = ("failed", "worker_lost"), ("dead_lettered", "retry_exhausted")


@pytest.mark.parametrize(
    ("count", "given_back", "has_ended", "is_held", "max_attempts", "retries", "expected"),
    [
        # A result ends everything, whoever holds it.
        (1, 0, True, False, 3, True, ACKNOWLEDGE),
        (9, 0, True, True, 1, True, ACKNOWLEDGE),
        (2, 0, True, False, 1, False, ACKNOWLEDGE),
        # A live worker keeps it, however often it was delivered.
        (2, 0, False, True, 1, True, LEAVE),
        (9, 0, False, True, 3, True, LEAVE),
        # A first delivery that was looked at runs.
        (1, 0, False, False, 1, True, (RUN, 1)),
        # Attempts are counted.
        (2, 0, False, False, 3, True, (RUN, 2)),
        (3, 0, False, False, 3, True, (RUN, 3)),
        (4, 0, False, False, 3, True, (EXHAUSTED, 3)),
        (9, 0, False, False, 3, True, (EXHAUSTED, 8)),
        # One attempt is at most once.
        (2, 0, False, False, 1, True, (LOST, 1)),
        # What was given back unstarted is no attempt.
        (2, 1, False, False, 1, True, (RUN, 1)),
        (3, 1, False, False, 1, True, (LOST, 1)),
        (5, 2, False, False, 3, True, (RUN, 3)),
        (6, 2, False, False, 3, True, (EXHAUSTED, 3)),
        # More given back than delivered: NATS was restored from an old copy.
        (1, 4, False, False, 1, True, (RUN, 1)),
        # A function that does not retry lost workers.
        (1, 0, False, False, 3, False, (RUN, 1)),
        (2, 0, False, False, 3, False, (LOST, 1)),
    ],
)
def test_the_table_of_redeliveries(
    count: int,
    given_back: int,
    has_ended: bool,
    is_held: bool,
    max_attempts: int,
    retries: bool,
    expected: Act | tuple[Act | tuple[str, str], int],
) -> None:
    verdict = decide(Sighting(count, given_back, has_ended, is_held), max_attempts, retries_lost=retries)

    assert _shown(verdict) == expected


def _shown(verdict: Verdict) -> Act | tuple[Act | tuple[str, str], int]:
    if verdict.state is not None and verdict.failure_class is not None:
        assert verdict.act is Act.END
        return (verdict.state.value, verdict.failure_class.value), verdict.attempt
    return (verdict.act, verdict.attempt) if verdict.act is Act.RUN else verdict.act
