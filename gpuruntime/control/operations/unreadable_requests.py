"""What is answered to bytes on a connection that are no HTTP request: no application gets to see them.

An application may still say it in its own words::

    app[UNREADABLE] = Unreadable(lambda status, reason: web.json_response({"error": reason}, status=status))
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from attrs import frozen

__all__ = ["UNREADABLE", "Unreadable", "WordedRunner"]

_LOG = logging.getLogger(__name__)
_REASON_SHOWN: Final = 200


@frozen
class Unreadable:
    """How an application answers what cannot be read: from a status and a reason, which quotes what came."""

    answer: Callable[[int, str], web.Response]


UNREADABLE: Final = web.AppKey("gpuruntime_unreadable", Unreadable)


class WordedRunner(web.AppRunner):
    """Runs an application as `web.AppRunner` does, and lets it answer what cannot be read."""

    def __init__(self, app: web.Application, **settings: Any) -> None:
        super().__init__(app, **settings)
        self._settings = settings

    async def _make_server(self) -> web.Server:
        plain = await super()._make_server()
        words = self.app.get(UNREADABLE)
        return plain if words is None else _WordedServer(plain, words, self._settings)


class _WordedServer(web.Server):
    def __init__(self, plain: web.Server, words: Unreadable, settings: dict[str, Any]) -> None:
        super().__init__(plain.request_handler, request_factory=plain.request_factory, **settings)
        self._words = words
        self._settings = {name: value for name, value in settings.items() if name not in _OF_RUNNERS}

    def __call__(self) -> web.RequestHandler:
        return _WordedHandler(self, self._words, self._settings)


# What the handler of a connection does not know.
_OF_RUNNERS: Final = frozenset({"shutdown_timeout", "handler_cancellation"})


class _WordedHandler(web.RequestHandler):
    __slots__ = ("_words",)

    def __init__(self, server: web.Server, words: Unreadable, settings: dict[str, Any]) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **settings)
        self._words = words

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what cannot be read. What goes wrong later is aiohttp's business, as it was."""
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        reason = " ".join((message or "").split())[:_REASON_SHOWN]
        _LOG.info("a request cannot be read", extra={"remote": request.remote or "", "error": reason})
        response = self._words.answer(status, reason)
        response.force_close()
        return response
