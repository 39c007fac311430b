"""Serving HTTP from the manager's loop."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Final

from aiohttp import web
from attrs import evolve, field, frozen

from gpuruntime.control.serving.bad_requests import UNREADABLE
from gpuruntime.control.serving.connection import ConnectionRunner
from gpuruntime.control.serving.connection_counters import ConnectionCounters
from gpuruntime.control.serving.limits import HttpLimits
from gpuruntime.control.serving.listener import Listener, listening_sockets

__all__ = ["HttpAddress", "HttpSite", "ListenError", "serving"]

_RETRY_SECONDS: Final = 2
_NO_ROOM: Final = f"all connections are in use; expected to be asked again in {_RETRY_SECONDS} seconds"


class ListenError(Exception):
    """The address cannot be listened on; the message says why."""


_LAST_PORT = 65535


@frozen
class HttpAddress:
    """Where to listen; port 0 is any free one."""

    host: str = "127.0.0.1"
    port: int = field(default=0)
    scheme: str = "http"

    @port.validator
    def _is_a_port(self, _: object, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LAST_PORT:
            raise ValueError(f"HttpAddress.port: expected a port from 0 to {_LAST_PORT}, got {value!r}")

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@asynccontextmanager
async def serving(
    app: web.Application,
    address: HttpAddress,
    *,
    drain: float = 0.5,
    tls: ssl.SSLContext | None = None,
    limits: HttpLimits | None = None,
    counters: ConnectionCounters | None = None,
) -> AsyncIterator[HttpAddress]:
    """Serve an application for the length of the block, with `tls` as HTTPS; gives the address with the port it got.

    Guarantees:
        When the block is left nothing listens any more; requests under way, also those of which the body is still on
        its way, get `drain` seconds to end. A handler whose client went away is cancelled. Signals are left alone.
        Connections keep within `limits`.

    Raises:
        ListenError: the address cannot be listened on.
    """
    chosen = limits or HttpLimits()
    runner = ConnectionRunner(app, chosen)
    inside = _Inside()
    app.middlewares.insert(0, inside.count)
    await runner.setup()
    try:
        sockets = await _listen(address)
        listener = Listener(
            sockets,
            runner.connection_server.handler_of,
            chosen,
            counters or ConnectionCounters(),
            tls=tls,
            refusal=lambda: _refusal(app),
        )
        try:
            async with listener:
                port = int(sockets[0].getsockname()[1])
                yield evolve(address, port=port, scheme="http" if tls is None else "https")
        finally:
            # The runner would wait, too, but from its first moment on it throws away what still comes of a request.
            await inside.left(drain)
    finally:
        await runner.cleanup()


async def _listen(address: HttpAddress) -> list[socket.socket]:
    try:
        return await listening_sockets(address.host, address.port)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ListenError(f"cannot listen on {address.host}:{address.port}: {reason}") from error


def _refusal(app: web.Application) -> bytes:
    """What a connection is answered for which there is no room: it is closed before it says anything."""
    words = app.get(UNREADABLE)
    response = web.Response(status=503, text=_NO_ROOM) if words is None else words.answer(503, _NO_ROOM)
    body = response.body if isinstance(response.body, bytes) else _NO_ROOM.encode()
    headers = {
        **response.headers,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "Retry-After": str(_RETRY_SECONDS),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 503 Service Unavailable\r\n{lines}\r\n".encode() + body


class _Inside:
    """The requests that are being answered."""

    def __init__(self) -> None:
        self._number = 0
        self._empty = asyncio.Event()
        self._empty.set()

    @web.middleware
    async def count(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self._number += 1
        self._empty.clear()
        try:
            return await handler(request)
        finally:
            self._number -= 1
            if not self._number:
                self._empty.set()

    async def left(self, within: float) -> None:
        """Returns when there are none, or it takes longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._empty.wait()


class HttpSite:
    """An application on an address, for a manager to run, within limits.

    Requests under way at its end get `drain` seconds.
    """

    def __init__(
        self,
        app: web.Application,
        address: HttpAddress,
        *,
        tls: ssl.SSLContext | None = None,
        drain: float = 10.0,
        limits: HttpLimits | None = None,
    ) -> None:
        self.name = address.url.partition("//")[2]
        self.connections = ConnectionCounters()
        self._limits = limits
        self._app = app
        self._drain = drain
        self._address = address
        self._tls = tls
        self._bound: HttpAddress | None = None
        self._listening = asyncio.Event()

    @property
    def bound(self) -> HttpAddress:
        """Where it listens.

        Raises:
            RuntimeError: it does not listen now.
        """
        if self._bound is None:
            raise RuntimeError(f"{self._address.url} is not served now")
        return self._bound

    async def listening(self) -> None:
        """Returns when it accepts connections."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ListenError: the address cannot be listened on.
        """
        async with serving(
            self._app,
            self._address,
            drain=self._drain,
            tls=self._tls,
            limits=self._limits,
            counters=self.connections,
        ) as bound:
            self._bound = bound
            self._listening.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._listening.clear()
                self._bound = None
