"""The decisions of the Operation reconciler: when to take over, to drop a request and to delete."""

from datetime import UTC, datetime, timedelta

import pytest

from gpuruntime.api.operation import RUNNING, SUCCEEDED, Operation, OperationSpec, OperationStatus
from gpuruntime.meta import EMPTY, FrozenDict, ObjectMeta
from gpuruntime.meta.timestamps import format_seconds
from gpuruntime.service.operations.controller import (
    Step,
    finished_at,
    step_after_end,
    step_before_end,
    takeover_delay,
)
from gpuruntime.service.operations.record import LeaseTiming

CREATED = datetime(2026, 11, 17, 12, tzinfo=UTC)
NOW = CREATED + timedelta(hours=2)
KEEP = timedelta(hours=3)
TIMING = LeaseTiming(lease=15.0, renew=10.0, period=3.0)


def an_operation(status: OperationStatus, request: FrozenDict[str, str] | None = None) -> Operation:
    metadata = ObjectMeta(name="op", namespace="system", creation_timestamp=format_seconds(CREATED))
    return Operation(metadata, OperationSpec("order-1", "hash", "create_gpu_unit", request), status)


@pytest.mark.parametrize(
    ("attempts", "silent", "is_busy", "expected"),
    [
        pytest.param(None, 5.0, False, Step("wait", 10.0), id="its creator may be at work"),
        pytest.param(None, 5.0, True, Step("wait", 10.0), id="executed here"),
        pytest.param(None, 15.0, False, Step("take over", 15.0), id="no renewal for a lease duration"),
        pytest.param(None, 15.0, True, Step("wait", 3.0), id="executed here, and about to be renewed"),
        pytest.param(3, 15.0, False, Step("wait", 45.0), id="the third attempt was interrupted"),
        pytest.param(3, 60.0, False, Step("take over", 15.0), id="a fourth attempt"),
    ],
)
def test_an_operation_is_taken_over_when_its_owner_is_silent_and_this_process_is_free(
    attempts: int | None, silent: float, is_busy: bool, expected: Step
) -> None:
    operation = an_operation(OperationStatus(state=RUNNING, attempts=attempts))

    assert step_before_end(operation, silent, TIMING, is_busy=is_busy) == expected


@pytest.mark.parametrize(
    ("request_", "silent", "now", "expected"),
    [
        pytest.param(EMPTY, 5.0, NOW, Step("wait", 10.0), id="its owner is about to drop the request"),
        pytest.param(EMPTY, 15.0, NOW, Step("drop request"), id="its owner died before that"),
        pytest.param(None, 0.0, NOW, Step("wait", 7200.0), id="ended an hour ago"),
        pytest.param(None, 0.0, NOW + timedelta(hours=2), Step("delete"), id="ended three hours ago"),
        pytest.param(None, 0.0, None, Step("wait", 10800.0), id="the server sends no time"),
    ],
)
def test_the_request_of_an_ended_operation_is_dropped_and_later_the_operation_is_deleted(
    request_: FrozenDict[str, str] | None, silent: float, now: datetime | None, expected: Step
) -> None:
    finished = format_seconds(CREATED + timedelta(hours=1))
    operation = an_operation(OperationStatus(state=SUCCEEDED, finished_at=finished), request_)

    assert step_after_end(operation, silent, TIMING, KEEP, now) == expected


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 15.0), (2, 30.0), (5, 240.0), (7, 600.0), (10_000, 600.0)])
def test_the_takeover_delay_doubles_with_each_attempt_up_to_ten_minutes(attempts: int, seconds: float) -> None:
    assert takeover_delay(attempts, 15.0) == seconds


@pytest.mark.parametrize(
    ("written", "ended"),
    [
        (CREATED + timedelta(hours=1), CREATED + timedelta(hours=1)),
        (CREATED + timedelta(hours=1) - timedelta(hours=25), CREATED),
        (CREATED + timedelta(hours=1) + timedelta(hours=25), CREATED),
        (NOW + timedelta(seconds=2), NOW + timedelta(seconds=2)),
        (None, CREATED),
    ],
)
def test_an_end_before_the_creation_or_in_the_future_is_replaced_by_the_creation(
    written: datetime | None, ended: datetime
) -> None:
    status = OperationStatus(state=SUCCEEDED, finished_at=None if written is None else format_seconds(written))

    assert finished_at(an_operation(status), NOW) == ended
