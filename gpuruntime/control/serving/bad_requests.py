"""Responses to requests that never reach the application: malformed HTTP, or no free connection.

They are plain text, unless the application sets a format of its own::

    app[ERROR_RESPONSE] = lambda status, reason: web.json_response({"error": reason}, status=status)
"""

from collections.abc import Callable
from typing import Final

from aiohttp import web

__all__ = ["ERROR_RESPONSE", "ErrorResponse", "error_response_of"]

ErrorResponse = Callable[[int, str], web.Response]
"""Builds a response from a status and a reason. The reason may quote what the client sent."""

ERROR_RESPONSE: Final[web.AppKey[ErrorResponse]] = web.AppKey("gpuruntime_error_response")


def error_response_of(app: web.Application) -> ErrorResponse:
    """The error responses of an application."""
    return app.get(ERROR_RESPONSE, _plain_text)


def _plain_text(status: int, reason: str) -> web.Response:
    return web.Response(status=status, text=reason)
