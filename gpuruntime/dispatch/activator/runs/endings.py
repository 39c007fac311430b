"""How invocations end, as records. Pure: what a worker says is checked here, and nothing is written.

A failure that the function's `retryOn` names will be the beginning of another attempt: `end_of_run` is the place where
that is decided. Today every result of a worker ends its invocation, and only lost workers are retried, by redelivery.
"""

from datetime import datetime, timedelta
from typing import Final

from attrs import evolve, frozen

from gpuruntime.api.invocations import (
    FailureClass,
    InvocationKey,
    InvocationState,
    QueuedInvocation,
    ResultRecord,
    metadata_headers,
)
from gpuruntime.dispatch.activator.runs.limits import RunLimits
from gpuruntime.dispatch.protocol import RunResult
from gpuruntime.service.invocations.streams import HEADER_BYTES

__all__ = ["End", "RunFacts", "end_of_run", "end_unstarted", "too_large", "wants_letter"]

_FROM_WORKERS: Final = frozenset(
    {InvocationState.SUCCEEDED, InvocationState.FAILED, InvocationState.EXPIRED, InvocationState.CANCELLED}
)
_CLASSES: Final = frozenset(each.value for each in FailureClass)
_MOST_ERROR: Final = 4096
_OTHER_FIELDS: Final = 8192
# NATS adds headers of its own.
_MOST_HEADER_BYTES: Final = HEADER_BYTES - 1024
_WITH_LETTER: Final = frozenset({InvocationState.FAILED, InvocationState.EXPIRED, InvocationState.DEAD_LETTERED})


@frozen
class RunFacts:
    """What an activator knows of a run."""

    key: InvocationKey
    attempt: int
    worker: str
    accepted: datetime
    queued: QueuedInvocation
    limits: RunLimits


@frozen
class End:
    """The record of an end, and the bytes that the function returned."""

    record: ResultRecord
    body: bytes = b""


def end_of_run(frame: RunResult, body: bytes, facts: RunFacts, now: datetime) -> End:
    """The end that a worker reports; `now` is the time of NATS. What a worker must not say becomes a failure."""
    state, failure_class, error = frame.state, frame.failure_class, frame.error
    if state not in _FROM_WORKERS:
        error = f"the worker reported the state {state!r}, which it cannot decide"
        state, failure_class, body = InvocationState.FAILED.value, FailureClass.FRAMEWORK_ERROR.value, b""
    if state == InvocationState.SUCCEEDED:
        failure_class, error = "", ""
    elif failure_class not in _CLASSES:
        failure_class = _default_class(state)
    started = now - timedelta(milliseconds=frame.execution_millis)
    record = ResultRecord(
        state=state,
        request_hash=facts.queued.request_hash,
        mode=facts.queued.mode,
        failure_class=failure_class,
        error=error[:_MOST_ERROR],
        status_code=frame.status_code,
        content_type=frame.content_type,
        headers=frame.headers,
        attempt=facts.attempt,
        worker=facts.worker,
        worker_namespace=facts.key.namespace,
        accepted_at=_text(facts.accepted),
        started_at=_text(started),
        ended_at=_text(now),
        delay_millis=_millis(started - facts.accepted),
        execution_millis=frame.execution_millis,
        result_ttl_millis=facts.limits.result_ttl_millis,
    )
    if len(body) > facts.limits.max_result_bytes:
        return too_large(record, f"the result has {len(body)} bytes, expected at most {facts.limits.max_result_bytes}")
    if _may_be_long(frame) and sum(map(len, metadata_headers(record).values())) > _MOST_HEADER_BYTES:
        return too_large(record, f"the headers of the result have more than {_MOST_HEADER_BYTES} bytes")
    return End(record, body)


def _may_be_long(frame: RunResult) -> bool:
    """Whether the record may be too long for a header: a character takes up to twelve in it."""
    length = len(frame.content_type) + sum(len(name) + len(value) for name, value in frame.headers.items())
    return 12 * (length + min(len(frame.error), _MOST_ERROR)) > _MOST_HEADER_BYTES - _OTHER_FIELDS


def too_large(record: ResultRecord, error: str) -> End:
    """The end of a run whose result cannot be stored."""
    return End(
        evolve(
            record,
            state=InvocationState.FAILED.value,
            failure_class=FailureClass.RESULT_TOO_LARGE.value,
            error=error,
            content_type="",
            headers=type(record.headers)(),
        )
    )


def end_unstarted(
    state: InvocationState,
    failure_class: FailureClass,
    error: str,
    *,
    accepted: datetime,
    now: datetime,
    result_ttl_millis: int,
    queued: QueuedInvocation | None = None,
    attempt: int = 0,
) -> End:
    """The end of an invocation that no run ended. `queued` is None if its message cannot be read."""
    request = queued or QueuedInvocation(request_hash="")
    return End(
        ResultRecord(
            state=state.value,
            request_hash=request.request_hash,
            mode=request.mode,
            failure_class=failure_class.value,
            error=error,
            attempt=attempt,
            accepted_at=_text(accepted),
            ended_at=_text(now),
            delay_millis=_millis(now - accepted),
            result_ttl_millis=result_ttl_millis,
        )
    )


def wants_letter(record: ResultRecord) -> bool:
    """Whether the request is kept: of every end without success that no caller asked for."""
    return record.state in _WITH_LETTER


def _default_class(state: str) -> str:
    found = {
        InvocationState.EXPIRED: FailureClass.FRAMEWORK_TIMEOUT,
        InvocationState.CANCELLED: FailureClass.CANCELLED_BY_CALLER,
    }
    return found.get(InvocationState(state), FailureClass.FRAMEWORK_ERROR).value


def _text(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _millis(duration: timedelta) -> int:
    return max(0, duration // timedelta(milliseconds=1))
