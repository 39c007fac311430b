"""Serving HTTP from the manager's loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address

from aiohttp import web
from attrs import evolve, frozen

__all__ = ["HttpAddress", "HttpSite", "ListenError", "serving"]

_DRAIN_SECONDS = 10.0
_LONGEST_LINE = 64 * 1024


class ListenError(Exception):
    """The address cannot be listened on; the message says why."""


@frozen
class HttpAddress:
    """Where to listen; port 0 is any free one."""

    host: str = "127.0.0.1"
    port: int = 0
    scheme: str = "http"

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
    app: web.Application, address: HttpAddress, *, drain: float = 0.5, tls: ssl.SSLContext | None = None
) -> AsyncIterator[HttpAddress]:
    """Serve an application for the length of the block, with `tls` as HTTPS; gives the address with the port it got.

    Guarantees:
        When the block is left nothing listens any more; requests under way get `drain` seconds to end. A handler whose
        client went away is cancelled. Signals are left alone.

    Raises:
        ListenError: the address cannot be listened on.
    """
    # What is too long for aiohttp is refused before the application sees it, and not in the application's words.
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=drain, max_line_size=_LONGEST_LINE, handler_cancellation=True
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host, address.port, ssl_context=tls).start()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise ListenError(f"cannot listen on {address.host}:{address.port}: {reason}") from error
        yield evolve(address, port=int(runner.addresses[0][1]), scheme="http" if tls is None else "https")
    finally:
        await runner.cleanup()


class HttpSite:
    """An application on an address, for a manager to run. Requests under way at its end get ten seconds to finish."""

    def __init__(self, app: web.Application, address: HttpAddress, *, tls: ssl.SSLContext | None = None) -> None:
        self._app = app
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
        async with serving(self._app, self._address, drain=_DRAIN_SECONDS, tls=self._tls) as bound:
            self._bound = bound
            self._listening.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._listening.clear()
                self._bound = None
