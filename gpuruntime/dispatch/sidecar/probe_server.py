"""The HTTP server of the sidecar, for the kubelet. The paths are described in `gpuruntime.api.serverless`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from attrs import frozen

from gpuruntime.api.serverless import DRAIN_PATH, HEALTH_PATH, LIVE_PATH, READY_PATH
from gpuruntime.dispatch.sidecar.framework_health import FrameworkHealth

__all__ = ["Probes", "serve_probes"]


@frozen(eq=False)
class Probes:
    """What the kubelet asks."""

    health: FrameworkHealth
    drain: Callable[[], Awaitable[bool]]

    async def process(self, _request: web.Request) -> web.Response:
        """The process runs. It never asks the framework, which is started after it."""
        return _answer("")

    async def readiness(self, _request: web.Request) -> web.Response:
        """The framework can take work."""
        return _answer(self.health.problem)

    async def framework_liveness(self, _request: web.Request) -> web.Response:
        """The framework has not to be restarted."""
        return _answer(self.health.stuck)

    async def draining(self, _request: web.Request) -> web.Response:
        """What runs has ended, and its results are stored."""
        return _answer("" if await self.drain() else "work is still running, or its results are not stored")


@asynccontextmanager
async def serve_probes(probes: Probes, port: int) -> AsyncIterator[int]:
    """Serve on all interfaces during the block; the value is the port.

    Raises:
        OSError: the port is taken.
    """
    app = web.Application()
    for path, handler in (
        (HEALTH_PATH, probes.process),
        (READY_PATH, probes.readiness),
        (LIVE_PATH, probes.framework_liveness),
        (DRAIN_PATH, probes.draining),
    ):
        app.router.add_get(path, handler)
    app.router.add_post(DRAIN_PATH, probes.draining)
    # A kubelet that gives up on /drain must not end the drain: handlers are not cancelled with their connection.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=False, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, port=port)
        await site.start()
        yield _port(runner.addresses)
    finally:
        await runner.cleanup()


def _port(addresses: Sequence[Any]) -> int:
    # For any free port the kernel picks one for IPv4 and another one for IPv6.
    port: int = min(addresses, key=len)[1]
    return port


def _answer(problem: str) -> web.Response:
    return web.Response(status=503 if problem else 200, text=f"{problem or 'ok'}\n")
