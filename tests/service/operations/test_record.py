"""The record of an Operation: its owner, its renewals and its end."""

from datetime import UTC, datetime

import pytest
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnitSpec
from gpuruntime.api.operation import (
    CREATE_GPU_UNIT,
    FAILED,
    RUNNING,
    SEED_STOCK_UNITS,
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
    is_owned_by,
    new_operation,
    renewed,
    request_hash,
    taken_over,
    with_progress,
)
from gpuruntime.service.units.create import CreateUnit

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REQUEST = CreateUnit("demo", GPUUnitSpec("g1.1", image="nginx"))


def an_operation(status: OperationStatus | None = None) -> Operation:
    made = new_operation("order-1", CREATE_GPU_UNIT, "hash", REQUEST, namespace="system", created_by="me/1")
    return evolve(made, status=status or OperationStatus())


def test_a_new_operation_is_named_by_its_operation_id_and_owned_by_its_creator() -> None:
    operation = an_operation()

    assert operation.metadata.name == operation_name("order-1")
    assert is_owned_by(operation, "me/1")
    assert not is_owned_by(operation, "me/2")
    assert not has_ended(operation)


def test_a_takeover_sets_the_owner_and_counts_an_attempt() -> None:
    first = taken_over(OperationStatus(), "you/1", NOW)

    second = taken_over(first, "you/2", NOW)

    assert (first.state, first.owner, first.attempts) == (RUNNING, "you/1", 2)
    assert (second.owner, second.attempts) == ("you/2", 3)
    assert is_owned_by(an_operation(second), "you/2")
    assert not is_owned_by(an_operation(second), "me/1")


def test_the_renew_time_increases_also_when_the_wall_clock_goes_back() -> None:
    first = renewed(OperationStatus(), "me/1", NOW)

    second = renewed(first, "me/1", NOW.replace(hour=1))

    assert first.renew_time is not None
    assert second.renew_time is not None
    assert second.renew_time > first.renew_time
    assert (second.attempts, second.owner) == (1, "me/1")


def test_the_same_progress_changes_nothing() -> None:
    status = with_progress(OperationStatus(), OperationProgress(37, 100), NOW)

    assert status.progress == OperationProgress(37, 100)
    assert with_progress(status, OperationProgress(37, 100), NOW.replace(hour=9)) is status
    assert with_progress(status, None, NOW) is status


@pytest.mark.parametrize(("error", "state"), [(None, SUCCEEDED), (OperationFailure("refused", "no"), FAILED)])
def test_an_end_has_a_state_a_time_and_an_error(error: OperationFailure | None, state: str) -> None:
    status = ended(OperationStatus(), NOW, result=None, error=error)

    assert (status.state, status.finished_at, status.error) == (state, "2026-01-02T03:04:05Z", error)
    assert has_ended(an_operation(status))


def test_the_last_renewal_is_the_local_time_at_which_the_record_was_first_seen() -> None:
    observations, operation = Observations(), an_operation()
    later_record = an_operation(renewed(operation.status, "me/1", NOW))

    first = observations.last_renewal(operation, 10.0)
    later = observations.last_renewal(operation, 20.0)
    moved = observations.last_renewal(later_record, 30.0)
    observations.forget(operation.metadata.name)

    assert (first, later, moved) == (10.0, 10.0, 30.0)
    assert observations.last_renewal(later_record, 40.0) == 40.0


def test_a_timing_in_which_another_owner_starts_before_the_first_stops_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lease.* renew"):
        LeaseTiming(lease=5.0, renew=5.0)


def test_the_hash_of_a_request_depends_on_all_of_it_and_on_its_type() -> None:
    known = request_hash(CREATE_GPU_UNIT, REQUEST)

    assert request_hash(CREATE_GPU_UNIT, evolve(REQUEST)) == known
    assert request_hash(CREATE_GPU_UNIT, evolve(REQUEST, name="other")) != known
    assert request_hash(SEED_STOCK_UNITS, REQUEST) != known
