"""Sockets are tracked until they are closed."""

import asyncio

import aiohttp

from gpuruntime.testing.faults.tracked_sockets import TrackedSockets
from gpuruntime.testing.scripted.answers import Stall, respond, watch_stream
from gpuruntime.testing.scripted.server import ScriptedServer


async def test_closing_waits_for_sockets_that_the_session_left_open() -> None:
    async with ScriptedServer() as server:
        server.on("GET", "/idle").answer(respond())
        server.on("GET", "/busy").answer(watch_stream(Stall()))
        sockets = TrackedSockets()
        connector = aiohttp.TCPConnector(socket_factory=sockets.create)
        async with aiohttp.ClientSession(server.url, connector=connector) as client:
            busy = await client.get("/busy")
            idle = await client.get("/idle")
            await idle.read()
            busy.close()
        await sockets.close()
        await server.idle()

    assert len(server.requests()) == 2
    assert not sockets._open
    assert len(asyncio.all_tasks()) == 1


async def test_closing_without_open_sockets_returns_at_once() -> None:
    await TrackedSockets().close()
