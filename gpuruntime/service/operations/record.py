"""What is written into an Operation, and what is concluded from what is read there.

The rules of leader election: times in the record are for people to read and are never compared with a local clock.
Whoever looks at an Operation notes when, by its own clock, it saw the record change; one that has not changed for as
long as a hold lasts is nobody's.
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
    "answered",
    "ended",
    "has_ended",
    "is_held_by",
    "new_operation",
    "progressed",
    "renewed",
    "request_hash",
    "taken",
]

CREATED_BY: Final = f"{GROUP}/created-by"
"""On an Operation: which call of which process created it, and owns it while nobody is written down as its owner."""

_TICK: Final = timedelta(microseconds=1)


@frozen
class LeaseTiming:
    """How long, in seconds, a hold on an Operation lasts for others, for its holder, and how often it is renewed.

    The time between `renew` and `lease` is for writes that are still on their way when a holder gives up.
    """

    lease: float = 15.0
    renew: float = 10.0
    period: float = 3.0

    def __attrs_post_init__(self) -> None:
        if not self.lease > self.renew > self.period > 0:
            raise ValueError(
                f"lease {self.lease:g} s, renew {self.renew:g} s, period {self.period:g} s: expected "
                "lease > renew > period > 0, so that a holder stops before others begin"
            )


def request_hash(type_: str, request: Struct) -> str:
    """The hash of a normalised request, by which a replay is told from another request."""
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
    """The Operation as it is to be created. It is its creator's until somebody else is written down as its owner."""
    annotations = {CREATED_BY: created_by} | ({REQUEST_ID: request_id} if request_id else {})
    metadata = ObjectMeta(name=operation_name(operation_id), namespace=namespace, annotations=FrozenDict(annotations))
    return Operation(metadata, OperationSpec(operation_id, digest, type_, freeze(encode(request))))


def has_ended(operation: Operation) -> bool:
    return operation.status.state in {SUCCEEDED, FAILED}


def is_held_by(operation: Operation, owner: str) -> bool:
    """Whether the Operation is in the hand of this owner; it is its creator's until somebody is written down."""
    return (operation.status.owner or operation.metadata.annotations.get(CREATED_BY)) == owner


def taken(status: OperationStatus, owner: str, now: datetime) -> OperationStatus:
    """The status in other hands, for another attempt."""
    # An Operation that nobody was written down for has had its creator's attempt.
    return evolve(_alive(status, now), state=RUNNING, owner=owner, attempts=(status.attempts or 1) + 1)


def renewed(status: OperationStatus, owner: str, now: datetime) -> OperationStatus:
    """The status with a sign of life of its owner. The renew time always moves on, whatever the wall clock does."""
    return evolve(_alive(status, now), state=RUNNING, owner=owner, attempts=status.attempts or 1)


def progressed(status: OperationStatus, progress: OperationProgress | None, now: datetime) -> OperationStatus:
    """The status with so many steps done; None leaves it as it is."""
    if progress is None or status.progress == progress:
        return status
    return evolve(status, progress=progress, updated_at=format_seconds(now))


def answered(status: OperationStatus, result: OperationResult, now: datetime) -> OperationStatus:
    """The status of an Operation whose answer is known while something is left to do."""
    return evolve(status, result=result, updated_at=format_seconds(now))


def ended(
    status: OperationStatus, now: datetime, *, result: OperationResult | None, error: OperationFailure | None
) -> OperationStatus:
    """The status of an Operation that has ended, well unless there is an error."""
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
    """When the record of each Operation was first seen as it is, by the local clock."""

    _seen: dict[str, tuple[tuple[str, str | None, str | None], float]] = field(factory=dict)

    def since(self, operation: Operation, now: float) -> float:
        """Since when there was no sign of life of whoever works on the Operation."""
        sign = (operation.metadata.uid, operation.status.owner, operation.status.renew_time)
        known = self._seen.get(operation.metadata.name)
        if known is None or known[0] != sign:
            known = self._seen[operation.metadata.name] = (sign, now)
        return known[1]

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)


def _alive(status: OperationStatus, now: datetime) -> OperationStatus:
    before = status.renew_time
    moved_on = now if before is None else max(now, parse_timestamp(before) + _TICK)
    return evolve(status, renew_time=format_micros(moved_on))
