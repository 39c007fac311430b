"""Endpoints: authenticate the caller, decode the request, call the handler, write the audit log.

::

    mount(app, (*units.routes(), *jobs.routes()), AccessControl(access, tokens))
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from itertools import groupby
from typing import Any, Final

from aiohttp import web
from attrs import frozen
from multidict import MultiDict

from gpuruntime.control.serving import ERROR_RESPONSE
from gpuruntime.endpoints.auth.access_control import AccessControl, require
from gpuruntime.endpoints.server.audit import AuditRecord, audit
from gpuruntime.endpoints.server.body import BodyThread, check_media_type, decoded, parse_object, read_body
from gpuruntime.endpoints.server.errors import CODES, ApiError, Fault, Faults, as_api_error, invalid
from gpuruntime.endpoints.server.headers import IDEMPOTENCY_KEY, OPERATION_ID, at_least, if_match, operation_id
from gpuruntime.endpoints.server.query import NoQuery, check_query_length, parse_query
from gpuruntime.endpoints.server.response_format import (
    add_request_id,
    bad_request_response,
    formatted,
    reject_expectation,
    success_response,
)
from gpuruntime.endpoints.server.route import PREFIX, Call, Caller, Idempotency, Route
from gpuruntime.meta import EMPTY
from gpuruntime.service.log_context import current_operation_id, current_request_id

__all__ = ["mount"]

_BODILESS: Final = frozenset({"GET", "HEAD"})
_LONGEST_PARAM: Final = 253
_NO_BODY: Final = (
    f"expected no body; send the operationID as header {IDEMPOTENCY_KEY} or as query parameter {OPERATION_ID}"
)


def mount(app: web.Application, routes: Sequence[Route], access: AccessControl) -> None:
    """Serve routes below the prefix of the API.

    Guarantees:
        A handler is called only with a valid request, by a caller who has the scope. Every write is in the audit log,
        whatever its outcome. All errors have one format, on unknown routes and for bytes that are not HTTP, too.
        Every response to a write has its operationID, errors included once it is known.
    """
    app.middlewares.append(formatted)
    app.on_response_prepare.append(add_request_id)
    app[ERROR_RESPONSE] = bad_request_response
    thread = BodyThread()
    app.on_cleanup.append(thread.close)
    for path, together in groupby(sorted(routes, key=lambda route: route.path), key=lambda route: route.path):
        resource = app.router.add_resource(PREFIX + path)
        methods = ["OPTIONS"]
        for route in together:
            served = ("GET", "HEAD") if route.method == "GET" else (route.method,)
            methods += served
            for method in served:
                resource.add_route(
                    method, _handler(_Endpoint(route, access, thread)), expect_handler=reject_expectation
                )
        resource.add_route("OPTIONS", _Options(",".join(sorted(methods))).serve)


def _handler(endpoint: "_Endpoint") -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    @wraps(endpoint.route.handler)
    async def serve(request: web.Request) -> web.StreamResponse:
        return await endpoint.serve(request)

    # The page that lists all routes shows it.
    serve.__doc__ = endpoint.route.documentation
    return serve


@frozen
class _Options:
    allowed: str

    async def serve(self, _request: web.Request) -> web.Response:
        """The methods of a path. There are no CORS headers: pages of other sites may not call the API."""
        return web.Response(status=204, headers={"Allow": self.allowed})


@frozen
class _Endpoint:
    route: Route
    access: AccessControl
    thread: BodyThread

    async def serve(self, request: web.Request) -> web.StreamResponse:
        record = AuditRecord(current_request_id.get())
        try:
            response = await self._respond(request, record)
            record.status = response.status
        except Exception as raised:
            error = self._for_route(as_api_error(raised), record.operation_id)
            record.status, record.code = error.status, error.code
            raise error from raised
        finally:
            # Also when the caller disconnected and the handler was cancelled.
            audit(request, record)
        return response

    async def _respond(self, request: web.Request, record: AuditRecord) -> web.StreamResponse:
        caller = record.caller = await self.access.authenticate(request)
        require(caller, self.route.scope)
        call = await self._call(request, caller, record)
        reply = await self.route.handler(call)
        if isinstance(reply, web.StreamResponse):
            return reply
        response = success_response(reply, request)
        if record.operation_id:
            response.headers[IDEMPOTENCY_KEY] = record.operation_id
        return response

    async def _call(self, request: web.Request, caller: Caller, record: AuditRecord) -> Call:
        route, headers, faults = self.route, request.headers, Faults()
        path_params = {name: _path_param(text) for name, text in request.match_info.items()}
        fields: dict[str, Any] = {}
        size, data = 0, b""
        if route.reader is not None:
            data = await read_body(request, route.reader.largest)
        elif request.method not in _BODILESS:
            fields, size = await self._fields(request)
        check_query_length(request.rel_url.raw_query_string)
        params = MultiDict(request.query)
        if route.idempotency is not Idempotency.NONE:
            in_body = fields.pop(OPERATION_ID, None)
            in_query = params.popall(OPERATION_ID, []) if route.takes_query_id else []
            with faults:
                record.operation_id = operation_id(headers, in_body, route.idempotency, in_query)
                current_operation_id.set(record.operation_id)
        body = query = match = version = None
        if params or route.query is not None:
            with faults:
                query = parse_query(params, route.query or NoQuery)
        if route.takes_if_match:
            with faults:
                match = if_match(headers)
        with faults:
            version = at_least(headers)
        if (reader := route.reader) is not None:
            faults.raise_if_any()
            body = await self.thread.run_in_thread(lambda: reader.read(request, data, query), len(data))
        elif (kind := route.body) is not None:
            with faults:
                body = await self.thread.run_in_thread(lambda: decoded(fields, kind), size)
        faults.raise_if_any()
        return Call(
            caller=caller,
            request_id=record.request_id,
            request=request,
            path_params=path_params,
            body=body,
            query=None if route.query is None else query,
            operation_id=record.operation_id,
            if_match=match,
            at_least=version or "",
        )

    async def _fields(self, request: web.Request) -> tuple[dict[str, Any], int]:
        """The fields of the body, and its size."""
        if self.route.body is None:
            if request.body_exists and request.content_length != 0:
                raise invalid(Fault("$", _NO_BODY))
            return {}, 0
        check_media_type(request)
        data = await read_body(request)
        return await self.thread.run_in_thread(lambda: parse_object(data), len(data)), len(data)

    def _for_route(self, error: ApiError, operation_id: str) -> ApiError:
        """The error with the route's own 404 code, and with the operationID to retry a write with."""
        missing = next((code for status, code in self.route.errors if status == 404), CODES[404])
        code = missing if error.code == CODES[404] else error.code
        headers = {IDEMPOTENCY_KEY: operation_id} if operation_id else EMPTY
        return ApiError(error.status, code, error.message, error.details, error.headers | headers)


def _path_param(text: str) -> str:
    """A variable part of the path. A text that no object can have as its name is 404."""
    if len(text) > _LONGEST_PARAM or not text.isascii() or not text.isprintable():
        raise ApiError(404, CODES[404], "the name in the path: expected at most 253 visible ASCII characters")
    return text
