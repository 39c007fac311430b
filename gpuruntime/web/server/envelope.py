"""What every request gets, on routes that exist and routes that do not: an id, and its refusals in the envelope."""

import logging
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gpuruntime.service.log_context import current_request_id, logged_as
from gpuruntime.web.server.errors import CODES, ApiError, error_body, refusal_of
from gpuruntime.web.server.request_id import REQUEST_ID, sane_request_id

__all__ = ["enveloped", "refused", "stamp", "unreadable"]

_LOG = logging.getLogger(__name__)
# The rest of the body has not been read, so the connection is of no use any more.
_UNREAD: Final = frozenset({408, 413, 415})


@web.middleware
async def enveloped(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Serve a request under an id of its own, and answer in the envelope whatever goes wrong.

    Guarantees:
        What failed on our side is told in the log only. An answer that has begun is cut off when it fails, so that
        nobody takes a half for the whole.
    """
    request_id = sane_request_id(request.headers.get(REQUEST_ID))
    with logged_as(request_id):
        response = await _answer(request, handler)
    if not response.prepared:
        _name(response, request_id)
    return response


async def stamp(_request: web.Request, response: web.StreamResponse) -> None:
    """Put the id on a stream, which begins while its handler runs. For the signal `on_response_prepare`."""
    if current_request_id.get():
        _name(response, current_request_id.get())


def unreadable(status: int, reason: str) -> web.Response:
    """The refusal of what came on a connection and is no HTTP request, or, with 503, of the connection itself."""
    message = reason if status == 503 else f"expected an HTTP request, got what cannot be read: {reason}"
    response = refused(ApiError(status, CODES.get(status, CODES[400]), message))
    _name(response, sane_request_id(None))
    return response


def _name(response: web.StreamResponse, request_id: str) -> None:
    response.headers[REQUEST_ID] = request_id
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
    # Instead of the versions of what we are built on.
    response.headers["Server"] = "gpuruntime"


async def _answer(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as answer:
        if answer.status < 400:
            raise
        refusal = _of_no_route(request, answer)
    except Exception as error:  # noqa: BLE001 - whatever a handler does wrong, the client gets an answer
        refusal = refusal_of(error)
        _log(request, refusal, error)
        if request.writer.output_size > 0 and request.transport is not None:
            request.transport.abort()
    response = refused(refusal)
    if refusal.status in _UNREAD:
        response.force_close()
    return response


def refused(refusal: ApiError) -> web.Response:
    """The answer that a refusal is."""
    return web.Response(
        status=refusal.status, body=error_body(refusal), headers=refusal.headers, content_type="application/json"
    )


def _of_no_route(request: web.Request, answer: web.HTTPException) -> ApiError:
    refusal = refusal_of(answer)
    message = f"{request.method} {request.path[:200]}: {refusal.message}; see /swagger/index.html for the routes"
    return ApiError(refusal.status, refusal.code, message, headers=refusal.headers)


def _log(request: web.Request, refusal: ApiError, error: Exception) -> None:
    fields = {"method": request.method, "path": request.rel_url.raw_path, "status": refusal.status}
    if refusal.status == 500:
        _LOG.error("request failed", extra=fields, exc_info=error)
    elif refusal.status > 500:
        _LOG.warning("request cannot be served now", extra={**fields, "error": str(error.__cause__ or error)})
