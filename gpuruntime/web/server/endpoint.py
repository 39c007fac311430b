"""The frame around handlers: lets callers in, decodes what they send, notes what they write.

::

    mount(app, (*units.routes(), *jobs.routes()), Gate(access, tokens))
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from itertools import groupby
from typing import Any, Final

from aiohttp import web
from attrs import frozen
from multidict import MultiDict

from gpuruntime.control.serving.bad_requests import UNREADABLE, Unreadable
from gpuruntime.meta import EMPTY
from gpuruntime.service.log_context import current_operation_id, current_request_id
from gpuruntime.web.auth.access_control import AccessControl, require
from gpuruntime.web.server.audit import Attempt, audit
from gpuruntime.web.server.body import check_media_type, decoded, parse_object, read_body
from gpuruntime.web.server.envelope import enveloped, stamp, unreadable
from gpuruntime.web.server.errors import CODES, ApiError, Fault, Faults, invalid, refusal_of
from gpuruntime.web.server.expect import expecting
from gpuruntime.web.server.headers import IDEMPOTENCY_KEY, OPERATION_ID, at_least, if_match, operation_id
from gpuruntime.web.server.query import NoQuery, parse_query, refuse_long_query
from gpuruntime.web.server.replies import response_of
from gpuruntime.web.server.route import PREFIX, Call, Caller, Idempotency, Route
from gpuruntime.web.server.side_thread import SideThread

__all__ = ["mount"]

_BODILESS: Final = frozenset({"GET", "HEAD"})
_LONGEST_NAME: Final = 253
_NO_BODY: Final = (
    f"expected no body; send the operationID as header {IDEMPOTENCY_KEY} or as query parameter {OPERATION_ID}"
)


def mount(app: web.Application, routes: Sequence[Route], gate: AccessControl) -> None:
    """Serve routes below the prefix of the API.

    Guarantees:
        A handler is called only with what its route describes, from a caller who may. Every write leaves an audit
        line, whatever becomes of it. All refusals are in the envelope: on unknown routes as well, and of what is no
        request at all. Every answer to a write names its operationID, refusals included once it is known.
    """
    app.middlewares.append(enveloped)
    app.on_response_prepare.append(stamp)
    app[UNREADABLE] = Unreadable(unreadable)
    side = SideThread()
    app.on_cleanup.append(side.close)
    for path, together in groupby(sorted(routes, key=lambda route: route.path), key=lambda route: route.path):
        resource = app.router.add_resource(PREFIX + path)
        methods = ["OPTIONS"]
        for route in together:
            served = ("GET", "HEAD") if route.method == "GET" else (route.method,)
            methods += served
            for method in served:
                resource.add_route(method, _handler(_Endpoint(route, gate, side)), expect_handler=expecting)
        resource.add_route("OPTIONS", _Options(",".join(sorted(methods))).serve)


def _handler(endpoint: "_Endpoint") -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    # With the name and the docstring of the handler inside: pages that list routes show them.
    @wraps(endpoint.route.handler)
    async def serve(request: web.Request) -> web.StreamResponse:
        return await endpoint.serve(request)

    return serve


@frozen
class _Options:
    allowed: str

    async def serve(self, _request: web.Request) -> web.Response:
        """Which methods there are. Nothing is said about other sites: their pages may not call."""
        return web.Response(status=204, headers={"Allow": self.allowed})


@frozen
class _Endpoint:
    route: Route
    gate: AccessControl
    side: SideThread

    async def serve(self, request: web.Request) -> web.StreamResponse:
        attempt = Attempt(current_request_id.get())
        try:
            response = await self._answer(request, attempt)
            attempt.status = response.status
        except Exception as error:
            refusal = self._own_words(refusal_of(error), attempt.operation_id)
            attempt.status, attempt.code = refusal.status, refusal.code
            raise refusal from error
        finally:
            # Also when the caller went away and the handler was cancelled.
            audit(request, attempt)
        return response

    async def _answer(self, request: web.Request, attempt: Attempt) -> web.StreamResponse:
        caller = attempt.caller = await self.gate.admit(request)
        require(caller, self.route.scope)
        call = await self._call(request, caller, attempt)
        reply = await self.route.handler(call)
        if isinstance(reply, web.StreamResponse):
            return reply
        response = response_of(reply, request)
        if attempt.operation_id:
            response.headers[IDEMPOTENCY_KEY] = attempt.operation_id
        return response

    async def _call(self, request: web.Request, caller: Caller, attempt: Attempt) -> Call:
        route, headers, faults = self.route, request.headers, Faults()
        names = {name: _name(text) for name, text in request.match_info.items()}
        fields, size = ({}, 0) if request.method in _BODILESS else await self._fields(request)
        refuse_long_query(request.rel_url.raw_query_string)
        asked = MultiDict(request.query)
        if route.idempotency is not Idempotency.NONE:
            in_body = fields.pop(OPERATION_ID, None)
            in_query = asked.popall(OPERATION_ID, []) if route.takes_query_id else []
            with faults:
                attempt.operation_id = operation_id(headers, in_body, route.idempotency, in_query)
                current_operation_id.set(attempt.operation_id)
        body = query = match = version = None
        if asked or route.query is not None:
            with faults:
                query = parse_query(asked, route.query or NoQuery)
        if route.takes_if_match:
            with faults:
                match = if_match(headers)
        with faults:
            version = at_least(headers)
        if (kind := route.body) is not None:
            with faults:
                body = await self.side.run(lambda: decoded(fields, kind), size)
        faults.refuse()
        return Call(
            caller=caller,
            request_id=attempt.request_id,
            request=request,
            names=names,
            body=body,
            query=None if route.query is None else query,
            operation_id=attempt.operation_id,
            if_match=match,
            at_least=version or "",
        )

    async def _fields(self, request: web.Request) -> tuple[dict[str, Any], int]:
        """What the body says, and how long it is."""
        if self.route.body is None:
            if request.body_exists and request.content_length != 0:
                raise invalid(Fault("$", _NO_BODY))
            return {}, 0
        check_media_type(request)
        data = await read_body(request)
        return await self.side.run(lambda: parse_object(data), len(data)), len(data)

    def _own_words(self, refusal: ApiError, operation_id: str) -> ApiError:
        """What is not found has a code of its own on each route, and who may send a write again is told its name."""
        missing = next((code for status, code in self.route.refusals if status == 404), CODES[404])
        code = missing if refusal.code == CODES[404] else refusal.code
        named = {IDEMPOTENCY_KEY: operation_id} if operation_id else EMPTY
        return ApiError(refusal.status, code, refusal.message, refusal.details, refusal.headers | named)


def _name(text: str) -> str:
    """A variable part of the path. What cannot be a name of anything is nowhere found."""
    if len(text) > _LONGEST_NAME or not text.isascii() or not text.isprintable():
        raise ApiError(404, CODES[404], "the name in the path: expected at most 253 visible ASCII characters")
    return text
