"""/serverless/invocations: requests to functions, their states and their results.

They need NATS, and no answer of the API server: functions are found in the cache.
"""

import re
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from gpuruntime.api.invocations import ArchiveCursorError, ArchiveQuery, InvocationKey, InvocationMode, InvocationState
from gpuruntime.api.rest.invocations import (
    AcceptedView,
    InvocationQuery,
    InvocationResultView,
    InvocationsQuery,
    InvocationView,
    InvokeBody,
    InvokeQuery,
    StatusQuery,
)
from gpuruntime.endpoints.server.errors import ApiError, Fault, invalid
from gpuruntime.endpoints.server.route import PREFIX, Call, Page, Reply, Response, Route, Scope
from gpuruntime.meta import FrozenDict
from gpuruntime.service.errors import InvocationEndedError
from gpuruntime.service.invocations.accept import Accepted, InvocationRequest
from gpuruntime.service.invocations.results import EndedInvocation
from gpuruntime.service.invocations.status import OpenInvocation
from gpuruntime.service.invocations.use_cases import InvocationService
from gpuruntime.web.resources.invocation_bodies import INVOKE_READER, Invoke
from gpuruntime.web.resources.invocation_views import accepted_view, invocation_view, result_view

__all__ = ["INVOCATION_ID_HEADER", "invocation_routes"]

INVOCATION_ID_HEADER: Final = "X-Invocation-ID"
"""The ID of the invocation, in every response to an accepted one."""

_PATH: Final = "/serverless/invocations"
_MISSING: Final = (404, "invocation_not_found")
_NO_FUNCTION: Final = (404, "gpufunction_not_found")
_AWAY: Final = (503, "queue_unavailable")
_HEADER_TEXT: Final = re.compile(r"[ -~]{1,255}")
_OPEN_CURSOR: Final = re.compile(r"[1-9][0-9]{0,17}")
_INVOKE = """\
Invoke a function. The invocation is durable before the response: with an invocationID of the caller it can be sent
again, through any replica, and runs once. The same ID with another payload is refused.

A body in JSON has all fields. With ?serverlessRequestID= the body is the payload itself, any bytes of any media type.

mode async responds with 202, or with 200 for one that was accepted before. mode sync responds with the result,
whatever the status code of the function. When timeoutSeconds are over it responds with 504; header X-Invocation-ID has
the ID, and the invocation goes on unless onTimeout is cancel."""
_GET = """\
Get the state of an invocation; with `wait`, once it has ended or the time is over. An ID that the caller chose needs
?serverlessRequestID=. An invocation that has waited longer than its function allows is expired."""
_RESULT = """\
Get the result of an invocation: the bytes that the function returned, with their media type. Headers
X-Invocation-State, X-Invocation-Status-Code and X-Invocation-Failure-Class say how it ended; without a result the body
is empty. 202 means that it has not ended, 410 that the result was kept for its time."""
_CANCEL = """\
Cancel an invocation that is queued or running. Sent again, the response is the same. One that has ended otherwise is
answered with 409."""
_LIST = """\
List invocations that have ended, the newest first, from the result store: one that has just ended may be missing. With
state=queued or state=running and a function, list those in its queue, the oldest first; since and until do not apply,
and a page may have fewer items than its limit although there is a next one."""


def invocation_routes(service: InvocationService) -> tuple[Route, ...]:
    """The routes of invocations."""
    handlers = _Handlers(service)
    one = f"{_PATH}/{{id}}"
    return (
        Route(
            *("POST", _PATH, handlers.invoke, "Invoke a function", Scope.WRITE),
            has_version=False,
            name="invokeFunction",
            description=_INVOKE,
            body=InvokeBody,
            query=InvokeQuery,
            reader=INVOKE_READER,
            responses=(
                Response(200, InvocationResultView, "sync: the result."),
                Response(202, AcceptedView, "async: the accepted invocation; 200 for one that was accepted before."),
            ),
            errors=(
                _NO_FUNCTION,
                (409, "invocation_conflict"),
                (409, "function_deleting"),
                (410, "result_expired"),
                (429, "queue_full"),
                _AWAY,
                (503, "storage_full"),
                (504, "not_finished"),
            ),
        ),
        Route(
            *("GET", _PATH, handlers.list, "List invocations", Scope.READ),
            name="listInvocations",
            description=_LIST,
            query=InvocationsQuery,
            responses=(Response(200, InvocationView, "A page of invocations.", is_list=True),),
            errors=(_NO_FUNCTION, _AWAY, (503, "archive_unavailable")),
        ),
        Route(
            *("GET", one, handlers.get, "Get an invocation", Scope.READ),
            has_version=False,
            name="getInvocation",
            description=_GET,
            query=StatusQuery,
            responses=(Response(200, InvocationView, "The state of the invocation."),),
            errors=(_MISSING, _AWAY),
        ),
        Route(
            *("GET", f"{one}/result", handlers.result, "Get the result of an invocation", Scope.READ),
            has_version=False,
            name="getInvocationResult",
            description=_RESULT,
            query=InvocationQuery,
            responses=(
                Response(200, None, "The bytes that the function returned.", is_bytes=True),
                Response(202, InvocationView, "The state of an invocation that has not ended."),
            ),
            errors=(_MISSING, (410, "result_expired"), _AWAY, (503, "archive_unavailable")),
        ),
        Route(
            *("POST", f"{one}/cancel", handlers.cancel, "Cancel an invocation", Scope.WRITE),
            has_version=False,
            name="cancelInvocation",
            description=_CANCEL,
            query=InvocationQuery,
            responses=(Response(200, InvocationView, "The cancelled invocation."),),
            errors=(_MISSING, (409, "invocation_ended"), _AWAY, (503, "storage_full")),
        ),
    )


class _Handlers:
    def __init__(self, service: InvocationService) -> None:
        self._service = service

    async def invoke(self, call: Call) -> Reply:
        body: Invoke = call.body
        request = InvocationRequest(
            self._service.functions.to_invoke(body.request_id, body.namespace),
            body.payload,
            body.own_id,
            body.mode,
            body.content_type,
            body.headers,
            body.attributes,
            body.run_seconds,
            _traceparent(call.request),
        )
        if body.mode is InvocationMode.SYNC:
            return await self._call(body, request)
        accepted = await self._service.invoke(request)
        if not accepted.is_duplicate:
            place = await self._service.place(accepted)
            return Reply(202, accepted_view(accepted, InvocationState.QUEUED, place), _headers(accepted))
        if isinstance(accepted.known, EndedInvocation):
            return Reply(200, accepted_view(accepted, accepted.known.record.state, None), _headers(accepted))
        view = self._view(accepted.key, await self._service.status(accepted.key))
        return Reply(200, accepted_view(accepted, view.state, view.queue_position), _headers(accepted))

    async def get(self, call: Call) -> Reply:
        query: StatusQuery = call.query
        key = self._key(call)
        return Reply(200, self._view(key, await self._service.status(key, query.wait)))

    async def result(self, call: Call) -> Reply | web.StreamResponse:
        key = self._key(call)
        found = await self._service.result(key)
        if isinstance(found, OpenInvocation):
            return Reply(202, self._view(key, found), FrozenDict({"Retry-After": "1"}))
        return _bytes_response(found)

    async def cancel(self, call: Call) -> Reply:
        key = self._key(call)
        return Reply(200, self._view(key, await self._service.cancel(key)))

    async def list(self, call: Call) -> Reply:
        query: InvocationsQuery = call.query
        functions = self._service.functions
        function = None
        if query.serverless_request_id is not None:
            function = functions.key_of(query.serverless_request_id, query.namespace)
        if query.state in {InvocationState.QUEUED.value, InvocationState.RUNNING.value}:
            if function is None:
                message = f"expected one with state={query.state}: only the queue of one function is listed"
                raise invalid(Fault("?serverlessRequestID", message, "required"))
            start = _open_cursor(query.cursor)
            page = await self._service.list_open(function, InvocationState(query.state), query.limit, start)
            views = tuple(self._view(item.request.key, item) for item in page.items)
            return Reply(200, Page(views, "" if page.next is None else str(page.next)))
        asked = ArchiveQuery(
            query.namespace if function is None else function.namespace,
            None if function is None else function.name,
            query.state,
            query.since,
            query.until,
            query.limit,
            query.cursor,
        )
        try:
            ended = await self._service.list_ended(asked)
        except ArchiveCursorError as error:
            raise invalid(Fault("?cursor", str(error))) from error
        return Reply(200, Page(tuple(self._view(item.key, item) for item in ended.items), ended.next))

    async def _call(self, body: Invoke, request: InvocationRequest) -> Reply:
        called = await self._service.call(request, body.wait_seconds)
        accepted, ended = called.accepted, called.ended
        if ended is None and body.cancels:
            ended = await self._cancelled(accepted.key)
        if ended is None:
            raise _not_finished(accepted, body.wait_seconds, "it goes on")
        if ended.record.state == InvocationState.CANCELLED and called.ended is None:
            raise _not_finished(accepted, body.wait_seconds, "it was cancelled")
        view = result_view(ended, accepted.request_id, accepted.mode, is_duplicate=accepted.is_duplicate)
        return Reply(200, view, _headers(accepted))

    async def _cancelled(self, key: InvocationKey) -> EndedInvocation | None:
        """Cancel a call that took too long; its result, if it ended at that moment."""
        try:
            cancelled = await self._service.cancel(key)
        except InvocationEndedError:
            found = await self._service.result(key)
            return found if isinstance(found, EndedInvocation) else None
        return cancelled if isinstance(cancelled, EndedInvocation) else None

    def _key(self, call: Call) -> InvocationKey:
        query: InvocationQuery = call.query
        return self._service.key(call.path_params["id"], query.serverless_request_id, query.namespace)

    def _view(self, key: InvocationKey, found: Any) -> InvocationView:
        return invocation_view(found, key, self._service.functions.request_id(key.function_key))


def _headers(accepted: Accepted) -> FrozenDict[str, str]:
    key = accepted.key
    query = f"serverlessRequestID={quote(accepted.request_id)}&namespace={quote(key.namespace)}"
    return FrozenDict({INVOCATION_ID_HEADER: key.id, "Location": f"{PREFIX}{_PATH}/{quote(key.id)}?{query}"})


def _not_finished(accepted: Accepted, seconds: int, what: str) -> ApiError:
    message = f"invocation {accepted.key.id}: no result within {seconds} s; {what}"
    return ApiError(504, "not_finished", message, headers={**_headers(accepted), "Retry-After": "1"})


def _bytes_response(ended: EndedInvocation) -> web.Response:
    """What a function returned. It is the data of a tenant: no browser may run it as a page of this site."""
    record = ended.record
    said = {
        "X-Invocation-State": record.state,
        "X-Invocation-Status-Code": str(record.status_code) if record.status_code else "",
        "X-Invocation-Failure-Class": record.failure_class,
    }
    headers = {
        **{name: value for name, value in said.items() if value},
        "Content-Type": record.content_type
        if _HEADER_TEXT.fullmatch(record.content_type)
        else "application/octet-stream",
        "Cache-Control": "no-store",
        "Content-Disposition": "attachment",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return web.Response(body=ended.body, headers=headers)


def _open_cursor(text: str | None) -> int:
    if text is None:
        return 1
    if _OPEN_CURSOR.fullmatch(text) is None:
        raise invalid(Fault("?cursor", "expected the `next` of an earlier page of the same query"))
    return int(text)


def _traceparent(request: web.Request) -> str:
    found = request.headers.get("traceparent", "")
    return found if found and _HEADER_TEXT.fullmatch(found) else ""
