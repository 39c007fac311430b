"""The one shape of an error answer, on routes that exist and routes that do not: `{"error": {"code", "message"}}`."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

__all__ = ["error_response", "errors_as_json"]

_LOG = logging.getLogger(__name__)
_CODES = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


def error_response(status: int, code: str, message: str, details: Any = None) -> web.Response:
    error: dict[str, Any] = {"code": code, "message": message}
    if details is not None:
        error["details"] = details
    return web.Response(status=status, body=orjson.dumps({"error": error}), content_type="application/json")


@web.middleware
async def errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn aiohttp's own refusals and handlers' failures into the envelope. The text of a failure stays in the log."""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        if refusal.status < 400:
            raise
        message = f"{request.method} {request.path}: {refusal.reason.lower()}; see / for the routes"
        response = error_response(refusal.status, _CODES.get(refusal.status, "invalid_request"), message)
        if "Allow" in refusal.headers:
            response.headers["Allow"] = refusal.headers["Allow"]
        return response
    except Exception:  # noqa: BLE001 - whatever a handler does wrong, the client gets an answer
        _LOG.exception("request failed", extra={"method": request.method, "path": request.path})
        return error_response(500, "internal_error", "the request failed on our side; the log of the process says why")
