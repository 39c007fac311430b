"""A server that ends its handlers and connections when it stops."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from gpuruntime.testing.loopback_http import LoopbackServer, stall


async def test_leaving_cancels_a_handler_and_waits_for_it() -> None:
    started, ended = asyncio.Event(), []

    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        started.set()
        try:
            await stall()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async with aiohttp.ClientSession() as client:
        async with LoopbackServer(handle) as server:
            request = asyncio.create_task(client.post(server.url))
            await started.wait()
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await request

    assert ended == [True]
    assert len(asyncio.all_tasks()) == 1


async def test_a_client_that_does_not_read_cannot_block_the_shutdown() -> None:
    size = 50_000_000

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x" * size)
        return response

    async with LoopbackServer(handle) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]), limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readexactly(1)

    received = await reader.read()
    writer.close()
    await writer.wait_closed()

    assert len(received) < size
    assert len(asyncio.all_tasks()) == 1


async def test_the_port_is_closed_afterwards() -> None:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    async with LoopbackServer(handle) as server, aiohttp.ClientSession() as client:
        before = (await client.get(server.url)).status

    async with aiohttp.ClientSession() as client:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get(server.url)
    assert before == 200
