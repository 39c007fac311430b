"""A plain HTTP server on a free loopback port whose handlers may stall, cut and reset connections."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NoReturn, Self

from aiohttp import web

from gpuruntime.testing.change_signal import ChangeSignal

__all__ = ["Handler", "LoopbackServer", "cut_connection", "reset_connection", "stall"]

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_LONGEST_HEADER = 64 * 1024


class _Connections(web.Server):
    """Tracks connections until they are closed; aiohttp forgets those that are still closing."""

    def __init__(self, handler: Handler) -> None:
        super().__init__(
            handler,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._closing = False
        self._changes = ChangeSignal()

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport
        if self._closing:  # accepted before the port was closed
            transport.abort()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._open.pop(handler, None)
        self._changes.announce()

    async def abort(self) -> None:
        """Close all connections immediately, also those whose client does not read."""
        self._closing = True
        for transport in self._open.values():
            transport.abort()
        await self._changes.until(lambda: not self._open)


class LoopbackServer:
    """Serves while its block runs.

    A handler is cancelled when its client disconnects and when the block ends. Leaving the block closes every
    connection and waits for all handlers. Request bodies reach the handler as they were sent, compressed or not.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._handling: set[asyncio.Task[object]] = set()
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        self._connections = _Connections(self._handle)
        self._runner = web.ServerRunner(self._connections)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        try:
            await self._site.start()
        except OSError:
            await self._runner.cleanup()
            raise
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._site.stop()
        await self._connections.abort()
        if self._handling:
            await asyncio.wait(self._handling)
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("aiohttp called a handler outside of a task")
        self._handling.add(task)
        try:
            return await self._handler(request)
        except ConnectionError:
            # The client disconnected during a write; it will not read the error page that aiohttp would send.
            await cut_connection(request)
        finally:
            self._handling.discard(task)


async def stall() -> NoReturn:
    """Wait until cancelled, which happens when the connection is lost or the server stops."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable: this event is never set")


async def cut_connection(request: web.BaseRequest) -> NoReturn:
    """Close the connection without completing the response: what was written still arrives."""
    if request.transport is not None:
        request.transport.close()
    await stall()


async def reset_connection(request: web.BaseRequest) -> NoReturn:
    """Close the connection with a TCP reset. Data that the client has not received yet may be lost."""
    if request.transport is not None:
        # With a linger time of 0, closing a socket sends RST instead of FIN.
        no_linger = struct.pack("ii", 1, 0)
        request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_linger)
        request.transport.abort()
    await stall()
