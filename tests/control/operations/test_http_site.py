import asyncio
import socket

import pytest
from aiohttp import web

from gpuruntime.control.operations.http_site import HttpAddress, HttpSite, ListenError, serving


async def test_nothing_listens_when_the_block_is_left_though_a_client_stays() -> None:
    async with serving(web.Application(), HttpAddress()) as bound:
        _, writer = await asyncio.open_connection(bound.host, bound.port)

    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(bound.host, bound.port)
    writer.close()


async def test_an_address_in_use_is_an_error_that_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(ListenError, match=f"cannot listen on 127.0.0.1:{port}: .*address already in use"):
            await serving(web.Application(), HttpAddress(port=port)).__aenter__()


async def test_a_site_tells_where_it_listens_only_while_it_does() -> None:
    site = HttpSite(web.Application(), HttpAddress())
    task = asyncio.create_task(site.run())
    await site.listening()
    bound = site.bound

    task.cancel()
    await asyncio.wait([task])

    assert bound.port > 0
    with pytest.raises(RuntimeError, match="is not served now"):
        _ = site.bound


@pytest.mark.parametrize(("host", "url"), [("::1", "http://[::1]:80"), ("127.0.0.1", "http://127.0.0.1:80")])
def test_addresses_read_as_urls(host: str, url: str) -> None:
    assert HttpAddress(host, 80).url == url


@pytest.mark.parametrize(
    ("host", "only_here"),
    [("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_an_address_tells_whether_others_can_reach_it(host: str, only_here: bool) -> None:
    assert HttpAddress(host).is_loopback is only_here
