import asyncio
import socket

import pytest
from aiohttp import ClientSession, web

from gpuruntime.control.serving.http_site import HttpAddress, HttpSite, ListenError, serving


async def test_nothing_listens_after_the_block_even_if_a_client_stays() -> None:
    async with serving(web.Application(), HttpAddress()) as bound:
        _, writer = await asyncio.open_connection(bound.host, bound.port)

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(bound.host, bound.port)
    writer.close()


async def test_a_long_path_gets_the_response_of_the_application() -> None:
    app = web.Application()
    async with (
        serving(app, HttpAddress()) as bound,
        ClientSession(bound.url) as session,
        session.get(f"/{'x' * 30_000}") as response,
    ):
        status = response.status

    assert status == 404


async def test_a_handler_whose_client_disconnects_is_cancelled() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def wait_for_long(_request: web.Request) -> web.Response:
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()
        return web.Response()

    app = web.Application()
    app.router.add_get("/", wait_for_long)
    async with serving(app, HttpAddress()) as bound:
        _, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await began.wait()

        writer.close()

        await ended.wait()


async def test_an_address_in_use_is_an_error_that_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: .*address already in use"):
            await serving(web.Application(), HttpAddress(port=port)).__aenter__()


async def test_a_site_has_a_bound_address_only_while_it_listens() -> None:
    site = HttpSite(web.Application(), HttpAddress())
    task = asyncio.create_task(site.run())
    await site.listening()
    bound = site.bound

    task.cancel()
    await asyncio.wait([task])

    assert bound.port > 0
    with pytest.raises(RuntimeError):
        _ = site.bound


@pytest.mark.parametrize(("host", "url"), [("::1", "http://[::1]:80"), ("127.0.0.1", "http://127.0.0.1:80")])
def test_addresses_as_urls(host: str, url: str) -> None:
    assert HttpAddress(host, 80).url == url


@pytest.mark.parametrize(
    ("host", "only_here"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_an_address_knows_whether_it_is_loopback(host: str, only_here: bool) -> None:
    assert HttpAddress(host).is_loopback is only_here


async def test_a_request_whose_body_is_still_being_received_is_answered_during_shutdown() -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=await request.text())

    app = web.Application()
    app.router.add_post("/", echo)
    site = HttpSite(app, HttpAddress())
    running = asyncio.create_task(site.run())
    await site.listening()
    address = site.bound
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
    await reader.readuntil(b"100 Continue\r\n\r\n")

    running.cancel()
    await asyncio.sleep(0)
    writer.write(b"body")

    assert (await reader.read()).endswith(b"\r\n\r\nbody")
    writer.close()
    await asyncio.wait([running])
