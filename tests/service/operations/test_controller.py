"""When an Operation ended, by the server's clock."""

from datetime import UTC, datetime, timedelta

import pytest

from gpuruntime.api.operation import SUCCEEDED, Operation, OperationSpec, OperationStatus
from gpuruntime.meta import ObjectMeta
from gpuruntime.meta.timestamps import format_seconds
from gpuruntime.service.operations.controller import finished_at

CREATED = datetime(2026, 11, 17, 12, tzinfo=UTC)
NOW = CREATED + timedelta(hours=2)


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
    metadata = ObjectMeta(name="op", namespace="system", creation_timestamp=format_seconds(CREATED))
    operation = Operation(metadata, OperationSpec("order-1", "hash", "create_gpu_unit"), status)

    assert finished_at(operation, NOW) == ended
