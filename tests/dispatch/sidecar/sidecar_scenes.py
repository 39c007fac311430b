"""A sidecar in the loop of a test, beside a scripted activator and a framework."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from attrs import evolve

from gpuruntime.aio import BackoffSchedule
from gpuruntime.dispatch.sidecar.durations import Durations
from gpuruntime.dispatch.sidecar.service import serve_sidecar
from gpuruntime.dispatch.sidecar.settings import SidecarSettings
from tests.dispatch.sidecar.scripted_activator import PATIENCE, ScriptedActivator, scripted_activator
from tests.framework.framework_scenes import served

__all__ = ["QUICK", "SidecarScene", "quick", "raw_server", "settings_of", "sidecar", "sidecar_of"]

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

_SOON: Final = BackoffSchedule(base=0.005, factor=2, cap=0.05, reset=1)
QUICK: Final = Durations(
    not_started=0.05, health_absent=0.01, health_unhealthy=0.02, health_healthy=0.1, reconnect=_SOON, refused=_SOON
)
"""Short pauses; what bounds how long something may take is as in the product."""


class SidecarScene:
    """A sidecar that runs until `stop`."""

    def __init__(self, activator: ScriptedActivator, port: int, stopping: asyncio.Event) -> None:
        self.activator = activator
        self.stopping = stopping
        self.task: asyncio.Task[None] | None = None
        self._port = port

    async def ask(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self._port}{path}") as response,
        ):
            return response.status, await response.text()

    async def ask_until(self, status: int, path: str) -> str:
        async with asyncio.timeout(PATIENCE):
            while True:
                found, text = await self.ask(path)
                if found == status:
                    return text
                await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Stop it as SIGTERM does, and wait for its end."""
        self.stopping.set()
        assert self.task is not None
        async with asyncio.timeout(PATIENCE):
            await self.task


def settings_of(tmp_path: Path, **options: Any) -> SidecarSettings:
    token = tmp_path / "token"
    if not token.exists():
        token.write_text("token-1\n")
    defaults = {"activator_url": "", "function": "echo", "request_id": "echo", "namespace": "team", "worker": "echo-1"}
    paths = {"token_file": token, "socket": tmp_path / "f.sock"}
    return SidecarSettings(**(defaults | paths | {"health_port": 0, "drain_seconds": 60.0} | options))


@asynccontextmanager
async def sidecar(
    tmp_path: Path,
    activator: ScriptedActivator | None = None,
    durations: Durations = QUICK,
    **options: Any,
) -> AsyncIterator[SidecarScene]:
    """A sidecar of a framework that is on the socket `f.sock`, or comes there."""
    if activator is None:
        async with scripted_activator() as own, sidecar(tmp_path, own, durations, **options) as scene:
            yield scene
        return
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = settings_of(tmp_path, **({"activator_url": f"{activator.url}/v1/worker"} | options))
    stopping = asyncio.Event()
    task = asyncio.create_task(serve_sidecar(settings, stopping, durations=durations, started=started.set_result))
    await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    scene = SidecarScene(activator, await started, stopping)
    scene.task = task
    try:
        yield scene
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled():
            await task


@asynccontextmanager
async def sidecar_of(
    tmp_path: Path, function: Callable[..., Any], *, durations: Durations = QUICK, slots: int = 1, **options: Any
) -> AsyncIterator[SidecarScene]:
    """A sidecar of a function that our SDK serves."""
    async with (
        served(tmp_path / "f.sock", function, concurrency=slots),
        sidecar(tmp_path, durations=durations, slots=slots, **options) as scene,
    ):
        yield scene


async def _healthy(_request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


@asynccontextmanager
async def raw_server(path: Path, answer: Answer, *, health: Answer = _healthy) -> AsyncIterator[None]:
    """An HTTP server on a unix socket that is no framework of ours."""
    app = web.Application(client_max_size=2**24)
    app.router.add_get("/healthz", health)
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.UnixSite(runner, str(path)).start()
        yield
    finally:
        await runner.cleanup()


def quick(**changes: Any) -> Durations:
    return evolve(QUICK, **changes)
