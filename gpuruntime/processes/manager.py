"""The all-in-one process: everything that the product does, in one event loop."""

import asyncio
import logging
import signal

from aiohttp import web
from attrs import frozen

from gpuruntime.web.app import application

__all__ = ["HttpAddress", "StartError", "run_manager"]

_LOG = logging.getLogger(__name__)
_SHUTDOWN_SECONDS = 10.0


class StartError(Exception):
    """The process cannot start; the message says why and what to do."""


@frozen
class HttpAddress:
    """Where to listen."""

    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


async def run_manager(address: HttpAddress) -> None:
    """Serve until SIGTERM or SIGINT; requests being answered then are finished first.

    Raises:
        StartError: the address cannot be listened on.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    runner = web.AppRunner(application(), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, address.host, address.port).start()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(
                f"cannot listen on {address.host}:{address.port}: {reason}; choose another --http-addr"
            ) from error
        _LOG.info("manager started", extra={"url": address.url})
        await stopped.wait()
        _LOG.info("manager stopping")
    finally:
        await runner.cleanup()
