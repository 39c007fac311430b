"""HTTP sites: applications served from the manager's loop."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import Final

from aiohttp import web
from attrs import evolve, field, frozen

from gpuruntime.control.serving.bad_requests import error_response_of
from gpuruntime.control.serving.connection import ConnectionRunner
from gpuruntime.control.serving.connection_counters import ConnectionCounters
from gpuruntime.control.serving.limits import HttpLimits
from gpuruntime.control.serving.listener import Listener, listening_sockets

__all__ = ["HttpAddress", "HttpSite", "ListenError", "serving"]

_RETRY_SECONDS: Final = 2
_NO_FREE_CONNECTION: Final = f"all connections are in use; retry in {_RETRY_SECONDS} seconds"


class ListenError(Exception):
    """The server cannot listen on the address; the message says why."""


_LAST_PORT = 65535


@frozen
class HttpAddress:
    """An address to listen on; port 0 means any free port."""

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
        """Whether it is reachable from this machine only."""
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
    """Serve an application during the block, with `tls` as HTTPS; yields the address with the actual port.

    Guarantees:
        After the block nothing listens. Requests in flight, including those whose body is still being received, get
        `drain` seconds to finish. A handler whose client disconnects is cancelled. Signal handlers are not changed. The
        connections stay within `limits`.

    Raises:
        ListenError: the server cannot listen on the address.
    """
    chosen = limits or HttpLimits()
    runner = ConnectionRunner(app, chosen)
    in_flight = _InFlight()
    app.middlewares.insert(0, in_flight.count)
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
            # The runner would wait, too, but it discards the rest of a body that is still being received.
            await in_flight.wait(drain)
    finally:
        await runner.cleanup()


async def _listen(address: HttpAddress) -> list[socket.socket]:
    try:
        return await listening_sockets(address.host, address.port)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ListenError(f"cannot listen on {address.host}:{address.port}: {reason}") from error


def _refusal(app: web.Application) -> bytes:
    """The response to a connection that is refused: it is sent before any request is read."""
    response = error_response_of(app)(503, _NO_FREE_CONNECTION)
    body = response.body if isinstance(response.body, bytes) else _NO_FREE_CONNECTION.encode()
    headers = {
        **response.headers,
        "Content-Length": str(len(body)),
        "Connection": "close",
        "Retry-After": str(_RETRY_SECONDS),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 503 Service Unavailable\r\n{lines}\r\n".encode() + body


class _InFlight:
    """The number of requests in flight."""

    def __init__(self) -> None:
        self._number = 0
        self._none = asyncio.Event()
        self._none.set()

    @web.middleware
    async def count(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self._number += 1
        self._none.clear()
        try:
            return await handler(request)
        finally:
            self._number -= 1
            if not self._number:
                self._none.set()

    async def wait(self, seconds: float) -> None:
        """Wait until no request is in flight, for at most this long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._none.wait()


class HttpSite:
    """An application on an address, run by a manager.

    At shutdown, requests in flight get `drain` seconds to finish.
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
        """The address with the actual port.

        Raises:
            RuntimeError: the site is not listening.
        """
        if self._bound is None:
            raise RuntimeError(f"the site on {self._address.url} is not listening")
        return self._bound

    async def listening(self) -> None:
        """Wait until the site accepts connections."""
        await self._listening.wait()

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ListenError: the server cannot listen on the address.
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
