"""What callers see of invocations."""

import base64
from datetime import datetime, timedelta
from typing import Any

import orjson

from gpuruntime.api.invocations import (
    ArchivedInvocation,
    InvocationKey,
    InvocationMode,
    InvocationState,
    ResultRecord,
    function_stream,
    queue_subject,
    result_subject,
)
from gpuruntime.api.rest.invocations import AcceptedView, InvocationResultView, InvocationView
from gpuruntime.meta import format_micros
from gpuruntime.service.invocations.accept import Accepted
from gpuruntime.service.invocations.results import EndedInvocation
from gpuruntime.service.invocations.status import OpenInvocation

__all__ = ["accepted_view", "invocation_view", "result_view"]


def accepted_view(accepted: Accepted, state: str, place: int | None) -> AcceptedView:
    """The view of an invocation that was just accepted, or that was accepted before."""
    key = accepted.key
    return AcceptedView(
        key.id,
        accepted.request_id,
        accepted.mode.value,
        queue_subject(key),
        result_subject(key),
        function_stream(key.function_key),
        accepted.is_duplicate,
        format_micros(accepted.at),
        state,
        sequence=accepted.sequence,
        queue_position=place if state == InvocationState.QUEUED else None,
    )


def invocation_view(
    found: OpenInvocation | EndedInvocation | ArchivedInvocation, key: InvocationKey, request_id: str
) -> InvocationView:
    """The view of the state of an invocation."""
    match found:
        case OpenInvocation():
            return _open_view(found, key, request_id)
        case EndedInvocation():
            return _ended_view(key, request_id, found.record, format_micros(found.time), len(found.body))
        case ArchivedInvocation():
            return _ended_view(
                key, request_id, found.record, found.ended_at, found.body_bytes, is_expired=found.is_expired
            )


def result_view(
    ended: EndedInvocation, request_id: str, mode: InvocationMode, *, is_duplicate: bool
) -> InvocationResultView:
    """The view of a result, for a synchronous call."""
    record = ended.record
    text, encoded = _body(ended.body, record.content_type)
    return InvocationResultView(
        ended.key.id,
        request_id,
        mode.value,
        record.state,
        is_duplicate,
        failure_class=record.failure_class or None,
        status_code=record.status_code or None,
        content_type=record.content_type or None,
        headers=record.headers,
        body=text,
        body_base64=encoded,
        error=record.error or None,
        worker=record.worker or None,
        worker_namespace=record.worker_namespace or None,
        attempt=record.attempt or None,
        started_at=record.started_at or None,
        completed_at=record.ended_at or format_micros(ended.time),
        delay_ms=record.delay_millis,
        execution_ms=record.execution_millis if record.started_at else None,
    )


def _open_view(found: OpenInvocation, key: InvocationKey, request_id: str) -> InvocationView:
    request, run = found.request, found.run
    started = None if run is None else _time(run.record.started_at)
    return InvocationView(
        key.id,
        request_id,
        key.namespace,
        found.state.value,
        mode=request.record.mode,
        attempt=None if run is None else run.record.attempt,
        queue_position=found.place,
        waiting_for=found.waiting_for,
        worker=None if run is None else run.record.worker,
        worker_namespace=None if run is None else key.namespace,
        accepted_at=format_micros(request.time),
        started_at=None if run is None else run.record.started_at,
        delay_ms=_millis((started or found.now) - request.time),
        execution_ms=None if started is None else _millis(found.now - started),
    )


def _ended_view(
    key: InvocationKey, request_id: str, record: ResultRecord, stored: str, size: int, *, is_expired: bool = False
) -> InvocationView:
    return InvocationView(
        key.id,
        request_id,
        key.namespace,
        record.state,
        mode=record.mode,
        attempt=record.attempt or None,
        failure_class=record.failure_class or None,
        error=record.error or None,
        status_code=record.status_code or None,
        content_type=record.content_type or None,
        result_bytes=size,
        result_expired=True if is_expired else None,
        worker=record.worker or None,
        worker_namespace=record.worker_namespace or None,
        accepted_at=record.accepted_at or None,
        started_at=record.started_at or None,
        completed_at=record.ended_at or stored,
        delay_ms=record.delay_millis,
        execution_ms=record.execution_millis if record.started_at else None,
    )


def _body(body: bytes, content_type: str) -> tuple[Any, str | None]:
    """A body as a JSON value or a text, else in Base64. JSON is passed on as it is: numbers keep their digits."""
    if not body:
        return None, None
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError:
            pass
        else:
            return orjson.Fragment(body), None
    if kind.startswith("text/"):
        try:
            return body.decode(), None
        except UnicodeDecodeError:
            pass
    return None, base64.b64encode(body).decode()


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _millis(passed: timedelta) -> int:
    return max(0, int(passed.total_seconds() * 1000))
