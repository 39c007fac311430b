"""The Operation as a record: pure functions that build it, change its status and read it.

The rules of leader election: times in the record are for people and are never compared with a local clock. An observer
notes when, by its own clock, it saw the record change. A record that has not changed for one lease duration has lost
its owner.
"""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

import orjson
from attrs import evolve, field, frozen

from gpuruntime.api.names import GROUP, REQUEST_ID
from gpuruntime.api.operation import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    Operation,
    OperationFailure,
    OperationProgress,
    OperationResult,
    OperationSpec,
    OperationStatus,
    operation_name,
)
from gpuruntime.meta import (
    FrozenDict,
    ObjectMeta,
    Struct,
    encode,
    format_micros,
    format_seconds,
    freeze,
    parse_timestamp,
)

__all__ = [
    "CREATED_BY",
    "LeaseTiming",
    "Observations",
    "ended",
    "has_ended",
    "is_owned_by",
    "new_operation",
    "renewed",
    "request_hash",
    "taken_over",
    "with_progress",
    "with_result",
]

CREATED_BY: Final = f"{GROUP}/created-by"
"""Annotation of an Operation: the attempt that created it, and owns it until the status names an owner."""

_TICK: Final = timedelta(microseconds=1)


@frozen
class LeaseTiming:
    """Timing of the lease on an Operation, in seconds.

    Args:
        lease: lease duration; other replicas wait this long without a renewal before they take the Operation over.
        renew: renew deadline; the owner stops writing this long after its last renewal.
        period: time between two renewals.

    The time between `renew` and `lease` is for writes that are still in flight when an owner gives up.
    """

    lease: float = 15.0
    renew: float = 10.0
    period: float = 3.0

    def __attrs_post_init__(self) -> None:
        if not self.lease > self.renew > self.period > 0:
            raise ValueError(
                f"lease {self.lease:g} s, renew {self.renew:g} s, period {self.period:g} s: expected "
                "lease > renew > period > 0, so that an owner stops before another one starts"
            )


def request_hash(type_: str, request: Struct) -> str:
    """Hash of a normalised request; it distinguishes a replay from another request with the same operationID."""
    body = {"type": type_, "request": encode(request)}
    return sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).hexdigest()


def new_operation(
    operation_id: str,
    type_: str,
    digest: str,
    request: Struct,
    *,
    namespace: str,
    created_by: str,
    request_id: str = "",
) -> Operation:
    """The Operation to create. Its creator owns it until the status names an owner."""
    annotations = {CREATED_BY: created_by} | ({REQUEST_ID: request_id} if request_id else {})
    metadata = ObjectMeta(name=operation_name(operation_id), namespace=namespace, annotations=FrozenDict(annotations))
    return Operation(metadata, OperationSpec(operation_id, digest, type_, freeze(encode(request))))


def has_ended(operation: Operation) -> bool:
    """Whether the Operation succeeded or failed."""
    return operation.status.state in {SUCCEEDED, FAILED}


def is_owned_by(operation: Operation, owner: str) -> bool:
    """Whether this owner holds the lease; until the status names an owner, the creator holds it."""
    return (operation.status.owner or operation.metadata.annotations.get(CREATED_BY)) == owner


def taken_over(status: OperationStatus, owner: str, now: datetime) -> OperationStatus:
    """The status with a new owner, for its next attempt."""
    # An Operation without an owner in its status has had its creator's attempt.
    return evolve(_with_renew_time(status, now), state=RUNNING, owner=owner, attempts=(status.attempts or 1) + 1)


def renewed(status: OperationStatus, owner: str, now: datetime) -> OperationStatus:
    """The status with a renewed lease. The renew time always increases, also when the wall clock goes back."""
    return evolve(_with_renew_time(status, now), state=RUNNING, owner=owner, attempts=status.attempts or 1)


def with_progress(status: OperationStatus, progress: OperationProgress | None, now: datetime) -> OperationStatus:
    """The status with this progress; None leaves it unchanged."""
    if progress is None or status.progress == progress:
        return status
    return evolve(status, progress=progress, updated_at=format_seconds(now))


def with_result(status: OperationStatus, result: OperationResult, now: datetime) -> OperationStatus:
    """The status of an Operation whose result is certain while its cleanup is still to do."""
    return evolve(status, result=result, updated_at=format_seconds(now))


def ended(
    status: OperationStatus, now: datetime, *, result: OperationResult | None, error: OperationFailure | None
) -> OperationStatus:
    """The status of an Operation that has succeeded, or failed if there is an error."""
    time = format_seconds(now)
    return evolve(
        status,
        state=SUCCEEDED if error is None else FAILED,
        result=result,
        error=error,
        updated_at=time,
        finished_at=time,
    )


@frozen
class Observations:
    """Local times at which each Operation's lease record was last seen to change."""

    _seen: dict[str, tuple[tuple[str, str | None, str | None], float]] = field(factory=dict)

    def last_renewal(self, operation: Operation, now: float) -> float:
        """Local time of the owner's last observed renewal."""
        record = (operation.metadata.uid, operation.status.owner, operation.status.renew_time)
        known = self._seen.get(operation.metadata.name)
        if known is None or known[0] != record:
            known = self._seen[operation.metadata.name] = (record, now)
        return known[1]

    def forget(self, name: str) -> None:
        """Drop what is known of an Operation that is gone."""
        self._seen.pop(name, None)


def _with_renew_time(status: OperationStatus, now: datetime) -> OperationStatus:
    before = status.renew_time
    later = now if before is None else max(now, parse_timestamp(before) + _TICK)
    return evolve(status, renew_time=format_micros(later))
