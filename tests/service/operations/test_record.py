"""What is written into an Operation, and what is concluded from it."""

from datetime import UTC, datetime

import pytest
from attrs import evolve

from gpuruntime.api.operation import (
    CREATE_GPU_UNIT,
    FAILED,
    RUNNING,
    SUCCEEDED,
    Operation,
    OperationFailure,
    OperationProgress,
    OperationStatus,
    operation_name,
)
from gpuruntime.service.operations.record import (
    LeaseTiming,
    Observations,
    ended,
    has_ended,
    is_held_by,
    new_operation,
    progressed,
    renewed,
    taken,
)
from gpuruntime.service.operations.requests import CreateUnit

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REQUEST = CreateUnit("demo", "g1.1", "nginx")


def an_operation(status: OperationStatus | None = None) -> Operation:
    made = new_operation("order-1", CREATE_GPU_UNIT, "hash", REQUEST, namespace="system", created_by="me/1")
    return evolve(made, status=status or OperationStatus())


def test_a_new_operation_has_the_name_of_its_operation_id_and_is_its_creators() -> None:
    operation = an_operation()

    assert operation.metadata.name == operation_name("order-1")
    assert is_held_by(operation, "me/1")
    assert not is_held_by(operation, "me/2")
    assert not has_ended(operation)


def test_whoever_takes_an_operation_over_is_its_owner_and_begins_another_attempt() -> None:
    first = taken(OperationStatus(), "you/1", NOW)

    second = taken(first, "you/2", NOW)

    assert (first.state, first.owner, first.attempts) == (RUNNING, "you/1", 2)
    assert (second.owner, second.attempts) == ("you/2", 3)
    assert is_held_by(an_operation(second), "you/2")
    assert not is_held_by(an_operation(second), "me/1")


def test_a_sign_of_life_always_moves_on_whatever_the_wall_clock_does() -> None:
    first = renewed(OperationStatus(), "me/1", NOW)

    second = renewed(first, "me/1", NOW.replace(hour=1))

    assert first.renew_time is not None
    assert second.renew_time is not None
    assert second.renew_time > first.renew_time
    assert (second.attempts, second.owner) == (1, "me/1")


def test_progress_that_is_the_same_changes_nothing() -> None:
    status = progressed(OperationStatus(), OperationProgress(37, 100), NOW)

    assert status.progress == OperationProgress(37, 100)
    assert progressed(status, OperationProgress(37, 100), NOW.replace(hour=9)) is status
    assert progressed(status, None, NOW) is status


@pytest.mark.parametrize(("error", "state"), [(None, SUCCEEDED), (OperationFailure("refused", "no"), FAILED)])
def test_an_end_tells_how_it_ended_and_when(error: OperationFailure | None, state: str) -> None:
    status = ended(OperationStatus(), NOW, result=None, error=error)

    assert (status.state, status.finished_at, status.error) == (state, "2026-01-02T03:04:05Z", error)
    assert has_ended(an_operation(status))


def test_silence_is_measured_by_the_local_clock_from_when_a_record_was_first_seen_so() -> None:
    observations, operation = Observations(), an_operation()
    alive = an_operation(renewed(operation.status, "me/1", NOW))

    first = observations.since(operation, 10.0)
    later = observations.since(operation, 20.0)
    moved = observations.since(alive, 30.0)
    observations.forget(operation.metadata.name)

    assert (first, later, moved) == (10.0, 10.0, 30.0)
    assert observations.since(alive, 40.0) == 40.0


def test_a_timing_in_which_others_begin_before_a_holder_stops_is_refused() -> None:
    with pytest.raises(ValueError, match="expected lease > renew > period > 0"):
        LeaseTiming(lease=5.0, renew=5.0)
