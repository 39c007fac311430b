"""One connection of a site: what it does now, how long it may take for that, and how it ends."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from gpuruntime.control.serving.bad_requests import UNREADABLE, Unreadable
from gpuruntime.control.serving.connection_counters import ConnectionCounters
from gpuruntime.control.serving.connection_table import ConnectionTable
from gpuruntime.control.serving.expect_continue import GO_ON, LateBody, expects_to_be_asked, without_expect
from gpuruntime.control.serving.limits import HttpLimits

__all__ = ["Connection", "ConnectionRunner", "ConnectionServer"]

_LOG = logging.getLogger(__name__)
_REASON_SHOWN: Final = 200
_LONGEST_LINE: Final = 64 * 1024
# The router looks at a path once for each of its segments, and at the whole of it.
_MOST_SEGMENTS: Final = 64
# Of a body in chunks a sixteenth of it is the number of chunks that are parsed at a time.
_READ_AT_ONCE: Final = 16 * 1024
# Sizes and extensions of chunks may take as much as the body itself. What is read but not parsed yet counts, too.
_CHUNKS_OVERHEAD: Final = 320 * 1024
# A reader that takes longer than this for an answer may have to give way to a new caller.
_PATIENCE_SECONDS: Final = 5.0
# What is left of requests after their time, and whatever the runner itself has to do.
_MOMENT_SECONDS: Final = 0.1


class Connection:
    """A connection from the moment in which it is accepted. `close` ends it at once, whatever it is doing."""

    def __init__(
        self, table: "ConnectionTable[Connection]", counters: ConnectionCounters, close: Callable[[], None]
    ) -> None:
        self._table = table
        self.counters = counters
        self.close = close

    def busy(self) -> None:
        self._table.busy(self)

    def waiting(self) -> None:
        self._table.waiting(self)

    def lost(self) -> None:
        self._table.remove(self)


class ConnectionRunner(web.AppRunner):
    """Runs an application as `web.AppRunner` does, within limits, and lets it answer what it does not get to see.

    Guarantees:
        No body is inflated: an application gets the bytes that were sent, and decides by Content-Encoding. A sender
        that waits for `100 Continue` is asked for the body when the application reads it. A connection with an
        unread body is closed after the answer; up to `linger_bytes` of the rest are dropped unparsed first.
    """

    def __init__(self, app: web.Application, limits: HttpLimits) -> None:
        self._settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": limits.idle_seconds,
            # aiohttp would parse the rest of an unread body; `_linger` drops it unparsed.
            "lingering_time": 0.0,
            "max_line_size": _LONGEST_LINE,
            "read_bufsize": _READ_AT_ONCE,
        }
        super().__init__(app, shutdown_timeout=_MOMENT_SECONDS, handler_cancellation=True, **self._settings)
        self._limits = limits

    async def _make_server(self) -> "ConnectionServer":
        plain = await super()._make_server()
        return ConnectionServer(plain, self.app.get(UNREADABLE), self._limits, self._settings)

    @property
    def connection_server(self) -> "ConnectionServer":
        """What makes handlers of connections; after `setup`."""
        return cast("ConnectionServer", self.server)


class ConnectionServer(web.Server):
    """Makes the handlers of connections."""

    def __init__(
        self, plain: web.Server, words: Unreadable | None, limits: HttpLimits, settings: dict[str, Any]
    ) -> None:
        super().__init__(self._answer, request_factory=self._request, handler_cancellation=True, **settings)
        self._application = plain.request_handler
        self._application_request = plain.request_factory
        self.words = words
        self.limits = limits
        self.settings = settings

    def handler_of(self, connection: Connection) -> "_Handler":
        return _Handler(self, connection)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        segments = request.rel_url.raw_path.count("/")
        if segments > _MOST_SEGMENTS:
            reason = f"a path of {segments} segments, expected at most {_MOST_SEGMENTS}"
            return web.Response(status=400, text=reason) if self.words is None else self.words.answer(400, reason)
        return await self._application(request)

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        handler = cast("_Handler", protocol)
        handler.request_began(payload)
        if expects_to_be_asked(message):
            message = without_expect(message)
            # HTTP/1.0 knows no interim answers: there the header means nothing.
            if message.version >= HttpVersion11:
                payload = cast("StreamReader", LateBody(payload, handler.ask_for_body))
        return self._application_request(message, payload, protocol, writer, task)


class _Handler(web.RequestHandler):
    __slots__ = ("_body", "_connection", "_gone", "_head_timer", "_left", "_received", "_served", "_serves")

    def __init__(self, server: ConnectionServer, connection: Connection) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **server.settings)
        self._served = server
        self._connection = connection
        self._serves = False
        self._body: StreamReader | None = None
        self._received = 0
        """Bytes that came since the request began."""
        self._left: int | None = None
        """How much of an unread body may still come; None while a request is served or awaited."""
        self._gone = asyncio.Event()
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.close = cast("asyncio.Transport", transport).abort
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_came()
        self._gone.set()
        self._connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._connection.close()
            return
        if self._serves and self._body is not None and not self._body.is_eof():
            self._received += len(data)
            if self._received > 2 * self._body.total_bytes + _CHUNKS_OVERHEAD:
                self._connection.close()
                return
        elif data and not self._serves and self._head_timer is None:
            self._await_head()
        super().data_received(data)
        if self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
            # No HTTP. aiohttp would parse every further piece, and note an error for each.
            self._left = self._served.limits.linger_bytes

    def request_began(self, body: StreamReader) -> None:
        self._head_came()
        self._serves, self._body, self._received = True, body, 0
        self._connection.busy()

    def ask_for_body(self) -> None:
        if self.transport is not None:
            self.transport.write(GO_ON)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        is_read = self._body is None or self._body.is_eof()
        if not is_read:
            # Whatever still comes of the body is thrown away, and where the next request begins is not looked for.
            resp.force_close()
        impatience = self._loop.call_later(_PATIENCE_SECONDS, self._connection.waiting)
        try:
            async with asyncio.timeout(self._served.limits.send_seconds):
                finished = await super().finish_response(request, resp, start_time)
        except TimeoutError as error:
            self._connection.counters.timed_out("send")
            self._connection.close()
            raise ConnectionResetError("the answer was not taken in time") from error
        finally:
            impatience.cancel()
            self._serves = False
            self._connection.waiting()
        if not is_read:
            await self._linger()
        return finished

    async def _linger(self) -> None:
        """Wait until the sender has read the answer and closed: closing first would reset what it has not read yet."""
        if self.transport is None:
            return
        self._left = self._served.limits.linger_bytes
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.transport.resume_reading()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._served.limits.linger_seconds):
                await self._gone.wait()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what cannot be read. What goes wrong later is aiohttp's business, as it was."""
        words = self._served.words
        if words is None or status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        reason = " ".join((message or "")[: 2 * _REASON_SHOWN].split())[:_REASON_SHOWN]
        _LOG.info("a request cannot be read", extra={"remote": request.remote or "", "error": reason})
        response = words.answer(status, reason)
        response.force_close()
        return response

    def _await_head(self) -> None:
        self._head_timer = self._loop.call_later(self._served.limits.head_seconds, self._head_is_late)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._connection.counters.timed_out("head")
        self._connection.close()
