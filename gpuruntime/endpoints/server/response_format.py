"""The format of every response: `{"data": ...}` or `{"error": ...}`, with a request id, on unknown routes as well."""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final
from uuid import uuid4

import orjson
from aiohttp import web

from gpuruntime.endpoints.server.errors import CODES, ApiError, as_api_error, error_body
from gpuruntime.endpoints.server.headers import matches_any
from gpuruntime.endpoints.server.route import Page, Reply
from gpuruntime.meta import encode
from gpuruntime.service.log_context import current_request_id, logged_as

__all__ = [
    "add_request_id",
    "bad_request_response",
    "error_response",
    "formatted",
    "reject_expectation",
    "success_response",
]

_LOG = logging.getLogger(__name__)
_REQUEST_ID: Final = "X-Request-ID"
# Safe in a log line.
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9._:@=+/-]{1,128}")
# Errors that leave the rest of the body unread: the connection cannot be used again.
_UNREAD: Final = frozenset({408, 413, 415})


@web.middleware
async def formatted(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Middleware: gives each request an id, and turns every exception into an error response.

    Guarantees:
        The cause of a 500 is logged and never sent. A response that fails after it has begun is cut off, so that no
        client takes a part for the whole.
    """
    request_id = _request_id(request.headers.get(_REQUEST_ID))
    with logged_as(request_id):
        response = await _serve(request, handler)
    if not response.prepared:
        _set_headers(response, request_id)
    return response


async def add_request_id(_request: web.Request, response: web.StreamResponse) -> None:
    """Signal `on_response_prepare`: adds the id to a stream, whose headers are sent while its handler runs."""
    if current_request_id.get():
        _set_headers(response, current_request_id.get())


def success_response(reply: Reply, request: web.Request) -> web.Response:
    """The response to a request; 304 if the client has this ETag already."""
    # A shared cache must not show one caller's response to another.
    headers = {"Cache-Control": "no-store", **reply.headers}
    etag = headers.get("ETag")
    if etag is not None and reply.status == 200 and request.method in {"GET", "HEAD"}:
        headers["Cache-Control"] = "private, no-cache"
        if matches_any(request.headers, etag):
            return web.Response(status=304, headers=headers)
    if reply.data is None:
        return web.Response(status=reply.status, headers=headers)
    body = orjson.dumps(_data(reply.data))
    return web.Response(status=reply.status, body=body, headers=headers, content_type="application/json")


def error_response(error: ApiError) -> web.Response:
    """The response of an error."""
    return web.Response(
        status=error.status, body=error_body(error), headers=error.headers, content_type="application/json"
    )


def bad_request_response(status: int, reason: str) -> web.Response:
    """The response to bytes that are not an HTTP request or, with status 503, to a connection over the limit."""
    message = reason if status == 503 else f"expected an HTTP request: {reason}"
    response = error_response(ApiError(status, CODES.get(status, CODES[400]), message))
    _set_headers(response, _request_id(None))
    return response


async def reject_expectation(request: web.Request) -> web.StreamResponse | None:
    """417 for any header Expect that gets here: the server handles `100-continue` itself, when the body is read."""
    message = f"header Expect: expected 100-continue or none, got {request.headers.get('Expect', '')[:80]!r}"
    response = error_response(ApiError(417, CODES[400], message))
    response.force_close()
    return response


def _request_id(offered: str | None) -> str:
    """The id that the caller sent if it is safe to log, else a new one."""
    return offered if offered is not None and _SAFE_ID.fullmatch(offered) else uuid4().hex


def _set_headers(response: web.StreamResponse, request_id: str) -> None:
    response.headers[_REQUEST_ID] = request_id
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    # Replaces aiohttp's default, which shows the versions of Python and aiohttp.
    response.headers["Server"] = "gpuruntime"


def _data(data: Any) -> dict[str, Any]:
    if isinstance(data, Page):
        more = {"next": data.next} if data.next else {}
        return {"data": [encode(item) for item in data.items], **more}
    if isinstance(data, tuple):
        return {"data": [encode(item) for item in data]}
    return {"data": encode(data)}


async def _serve(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as raised:
        if raised.status < 400:
            raise
        error = _route_error(request, raised)
    except Exception as raised:  # noqa: BLE001 - whatever a handler raises, the client gets an error response
        error = as_api_error(raised)
        _log(request, error, raised)
        if request.writer.output_size > 0 and request.transport is not None:
            request.transport.abort()
    response = error_response(error)
    if error.status in _UNREAD:
        response.force_close()
    return response


def _route_error(request: web.Request, raised: web.HTTPException) -> ApiError:
    error = as_api_error(raised)
    message = f"{request.method} {request.path[:200]}: {error.message}; see /swagger/index.html for the routes"
    return ApiError(error.status, error.code, message, headers=error.headers)


def _log(request: web.Request, error: ApiError, raised: Exception) -> None:
    fields = {"method": request.method, "path": request.rel_url.raw_path, "status": error.status}
    if error.status == 500:
        _LOG.error("request failed", extra=fields, exc_info=raised)
    elif error.status > 500:
        _LOG.warning("service unavailable", extra={**fields, "error": str(raised.__cause__ or raised)})
