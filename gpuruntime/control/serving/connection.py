"""One connection of an HTTP site: timeouts, limits on bodies, malformed requests, and closing."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from aiohttp import HttpVersion11, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from gpuruntime.control.serving.bad_requests import ErrorResponse, error_response_of
from gpuruntime.control.serving.connection_counters import ConnectionCounters
from gpuruntime.control.serving.connection_table import ConnectionTable
from gpuruntime.control.serving.expect_continue import CONTINUE, LateBody, expects_continue, without_expect
from gpuruntime.control.serving.limits import HttpLimits

__all__ = ["Connection", "ConnectionRunner", "ConnectionServer"]

_LOG = logging.getLogger(__name__)
_MAX_REASON_LENGTH: Final = 200
_MAX_LINE_SIZE: Final = 64 * 1024
# The router matches the whole path once for each of its segments.
_MAX_SEGMENTS: Final = 64
# A sixteenth of this is the number of chunks of a chunked body that are parsed at a time.
_READ_BUFFER: Final = 16 * 1024
# Chunk sizes and extensions may take as much as the body itself. Data that is read but not parsed yet counts, too.
_CHUNK_OVERHEAD: Final = 320 * 1024
# A client that takes longer than this to receive a response counts as idle and may be evicted.
_SLOW_CLIENT_SECONDS: Final = 5.0
# For requests that are left after the drain, and the runner's own cleanup.
_SHUTDOWN_SECONDS: Final = 0.1


class Connection:
    """A connection from its acceptance on. `close` aborts it at once."""

    def __init__(
        self, table: "ConnectionTable[Connection]", counters: ConnectionCounters, close: Callable[[], None]
    ) -> None:
        self._table = table
        self.counters = counters
        self.close = close

    def set_busy(self) -> None:
        self._table.set_busy(self)

    def set_idle(self) -> None:
        self._table.set_idle(self)

    def lost(self) -> None:
        self._table.remove(self)


class ConnectionRunner(web.AppRunner):
    """A `web.AppRunner` with limits, whose error responses are those of the application.

    Guarantees:
        Bodies are not decompressed: an application gets the bytes as sent, and decides by Content-Encoding. `100
        Continue` is sent when the application reads the body. A connection with an unread body is closed after the
        response; up to `linger_bytes` of the rest are discarded unparsed first.
    """

    def __init__(self, app: web.Application, limits: HttpLimits) -> None:
        self._settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": limits.idle_seconds,
            # aiohttp would parse the rest of an unread body; `_linger` discards it unparsed.
            "lingering_time": 0.0,
            "max_line_size": _MAX_LINE_SIZE,
            "read_bufsize": _READ_BUFFER,
        }
        super().__init__(app, shutdown_timeout=_SHUTDOWN_SECONDS, handler_cancellation=True, **self._settings)
        self._limits = limits

    # A private method of aiohttp: there is no public way to replace the request handlers of an application.
    async def _make_server(self) -> "ConnectionServer":
        plain = await super()._make_server()
        return ConnectionServer(plain, error_response_of(self.app), self._limits, self._settings)

    @property
    def connection_server(self) -> "ConnectionServer":
        """The factory of connection handlers; available after `setup`."""
        return cast("ConnectionServer", self.server)


class ConnectionServer(web.Server):
    """The factory of connection handlers."""

    def __init__(
        self, plain: web.Server, error_response: ErrorResponse, limits: HttpLimits, settings: dict[str, Any]
    ) -> None:
        super().__init__(self._respond, request_factory=self._request, handler_cancellation=True, **settings)
        self._application = plain.request_handler
        self._application_request = plain.request_factory
        self.error_response = error_response
        self.limits = limits
        self.settings = settings

    def handler_of(self, connection: Connection) -> "_Handler":
        return _Handler(self, connection)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        segments = request.rel_url.raw_path.count("/")
        if segments > _MAX_SEGMENTS:
            return self.error_response(400, f"a path of {segments} segments, expected at most {_MAX_SEGMENTS}")
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
        if expects_continue(message):
            message = without_expect(message)
            # HTTP/1.0 has no interim responses: there the header is ignored.
            if message.version >= HttpVersion11:
                payload = cast("StreamReader", LateBody(payload, handler.send_continue))
        return self._application_request(message, payload, protocol, writer, task)


class _Handler(web.RequestHandler):
    __slots__ = ("_body", "_connection", "_head_timer", "_is_serving", "_left", "_lost", "_received", "_server_factory")

    def __init__(self, server: ConnectionServer, connection: Connection) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **server.settings)
        self._server_factory = server
        self._connection = connection
        self._is_serving = False
        self._body: StreamReader | None = None
        self._received = 0
        """Bytes received since the request began."""
        self._left: int | None = None
        """How many bytes of an unread body may still be discarded; None while a request is served or awaited."""
        self._lost = asyncio.Event()
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.close = cast("asyncio.Transport", transport).abort
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_received()
        self._lost.set()
        self._connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                self._connection.close()
            return
        if self._is_serving and self._body is not None and not self._body.is_eof():
            self._received += len(data)
            if self._received > 2 * self._body.total_bytes + _CHUNK_OVERHEAD:
                self._connection.close()
                return
        elif data and not self._is_serving and self._head_timer is None:
            self._await_head()
        super().data_received(data)
        if self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
            # Malformed HTTP. aiohttp would parse every further piece and record an error for each.
            self._left = self._server_factory.limits.linger_bytes

    def request_began(self, body: StreamReader) -> None:
        self._head_received()
        self._is_serving, self._body, self._received = True, body, 0
        self._connection.set_busy()

    def send_continue(self) -> None:
        if self.transport is not None:
            self.transport.write(CONTINUE)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        is_read = self._body is None or self._body.is_eof()
        if not is_read:
            # The rest of the body is discarded unparsed, so the start of a next request would not be found.
            resp.force_close()
        slow_client = self._loop.call_later(_SLOW_CLIENT_SECONDS, self._connection.set_idle)
        try:
            async with asyncio.timeout(self._server_factory.limits.send_seconds):
                finished = await super().finish_response(request, resp, start_time)
        except TimeoutError as error:
            self._connection.counters.timed_out("send")
            self._connection.close()
            raise ConnectionResetError("the client did not receive the response in time") from error
        finally:
            slow_client.cancel()
            self._is_serving = False
            self._connection.set_idle()
        if not is_read:
            await self._linger()
        return finished

    async def _linger(self) -> None:
        """Wait until the client has closed: closing first would reset it before the response is read."""
        if self.transport is None:
            return
        self._left = self._server_factory.limits.linger_bytes
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.transport.resume_reading()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._server_factory.limits.linger_seconds):
                await self._lost.wait()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The response to a malformed request, without a stack trace. aiohttp handles all other errors."""
        if status >= 500 or request.writer.output_size > 0:
            return super().handle_error(request, status, exc, message)
        reason = " ".join((message or "")[: 2 * _MAX_REASON_LENGTH].split())[:_MAX_REASON_LENGTH]
        _LOG.info("malformed request", extra={"remote": request.remote or "", "error": reason})
        response = self._server_factory.error_response(status, reason)
        response.force_close()
        return response

    def _await_head(self) -> None:
        self._head_timer = self._loop.call_later(self._server_factory.limits.head_seconds, self._head_is_late)

    def _head_received(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._connection.counters.timed_out("head")
        self._connection.close()
