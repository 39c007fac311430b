"""One connection of a site: what it does now, how long it may take for that, and how it ends."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage

from gpuruntime.control.operations.connection_counters import ConnectionCounters
from gpuruntime.control.operations.connection_table import ConnectionTable
from gpuruntime.control.operations.http_limits import HttpLimits
from gpuruntime.control.operations.late_body import GO_ON, LateBody, expects_to_be_asked, without_expect
from gpuruntime.control.operations.unreadable_requests import UNREADABLE, Unreadable

__all__ = ["Connection", "ConnectionRunner", "ConnectionServer"]

_LOG = logging.getLogger(__name__)
_REASON_SHOWN: Final = 200
_LONGEST_LINE: Final = 64 * 1024
# Also the number of tiny chunks that are parsed at a time, times sixteen.
_READ_AT_ONCE: Final = 64 * 1024
# What is left of requests after their time, and whatever the runner itself has to do.
_MOMENT_SECONDS: Final = 0.1


class Connection:
    """A connection from the moment in which it is accepted. `close` ends it at once, whatever it is doing."""

    def __init__(self, table: "ConnectionTable[Connection]", counters: ConnectionCounters) -> None:
        self._table = table
        self.counters = counters
        self.close: Callable[[], None] = lambda: None

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
        that waits for `100 Continue` is asked for the body when the application reads it. Of a body that is not read
        only `linger_bytes` are taken off the connection.
    """

    def __init__(self, app: web.Application, limits: HttpLimits) -> None:
        self._settings: dict[str, Any] = {
            "access_log": None,
            "auto_decompress": False,
            "keepalive_timeout": limits.idle_seconds,
            "lingering_time": limits.linger_seconds,
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
        super().__init__(plain.request_handler, request_factory=self._request, handler_cancellation=True, **settings)
        self._application_request = plain.request_factory
        self.words = words
        self.limits = limits
        self.settings = settings

    def handler_of(self, connection: Connection) -> "_Handler":
        return _Handler(self, connection)

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        handler = cast("_Handler", protocol)
        late = None
        if expects_to_be_asked(message):
            message, late = without_expect(message), LateBody(payload, handler.ask_for_body)
        handler.request_began(payload, late)
        body = payload if late is None else cast("StreamReader", late)
        return self._application_request(message, body, protocol, writer, task)


class _Handler(web.RequestHandler):
    __slots__ = ("_body", "_connection", "_head_timer", "_late", "_lingering", "_served", "_serves")

    def __init__(self, server: ConnectionServer, connection: Connection) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **server.settings)
        self._served = server
        self._connection = connection
        self._serves = False
        self._body: StreamReader | None = None
        self._late: LateBody | None = None
        self._lingering: int | None = None
        """How many bytes may still come of a body that nobody wants; None while that is not so."""
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.close = cast("asyncio.Transport", transport).abort
        self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_came()
        self._connection.lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingering is not None:
            self._lingering -= len(data)
            if self._lingering < 0:
                self._connection.close()
                return
        elif data and not self._serves and self._head_timer is None:
            self._await_head()
        super().data_received(data)

    def request_began(self, body: StreamReader, late: LateBody | None) -> None:
        self._head_came()
        self._serves, self._body, self._late, self._lingering = True, body, late, None
        self._connection.busy()

    def ask_for_body(self) -> None:
        if self.transport is not None:
            self.transport.write(GO_ON)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        if self._late is not None and not self._late.asked:
            # Whether the sender sends the body all the same is not known, nor where the next request would begin.
            resp.force_close()
        try:
            async with asyncio.timeout(self._served.limits.send_seconds):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError as error:
            self._connection.counters.timed_out("send")
            self._connection.close()
            raise ConnectionResetError("the answer was not taken in time") from error
        finally:
            self._serves = False
            self._lingering = None if self._body is None or self._body.is_eof() else self._served.limits.linger_bytes
            self._connection.waiting()

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
        self._head_timer = asyncio.get_running_loop().call_later(self._served.limits.head_seconds, self._head_is_late)

    def _head_came(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        self._connection.counters.timed_out("head")
        self._connection.close()
