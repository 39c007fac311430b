"""Which connections are accepted, evicted and refused."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from attrs import frozen
from prometheus_client import CollectorRegistry

from gpuruntime.control.metrics.connections import ConnectionCollector
from gpuruntime.control.serving.bad_requests import ERROR_RESPONSE
from gpuruntime.control.serving.http_site import HttpAddress, HttpSite, ListenError, serving
from gpuruntime.control.serving.limits import HttpLimits
from gpuruntime.testing.cluster.certificates import Authority
from gpuruntime.testing.virtual_time import run_virtual

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LONG = b"GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@frozen
class Served:
    site: HttpSite
    began: asyncio.Semaphore

    async def connect(self, *said: bytes, caller: str = "127.0.0.1") -> Streams:
        bound = self.site.bound
        reader, writer = await asyncio.open_connection(bound.host, bound.port, local_addr=(caller, 0))
        writer.writelines(said)
        return reader, writer

    async def occupy(self, caller: str = "127.0.0.1") -> Streams:
        """A connection with a long request."""
        streams = await self.connect(LONG, caller=caller)
        await self.began.acquire()
        return streams


@asynccontextmanager
async def serving_site(limits: HttpLimits, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    began = asyncio.Semaphore(0)

    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def long(_request: web.Request) -> web.Response:
        began.release()
        await asyncio.get_running_loop().create_future()
        return web.Response()

    app = web.Application()
    app.router.add_get("/", hello)
    app.router.add_get("/long", long)
    app[ERROR_RESPONSE] = lambda status, reason: web.json_response({"error": reason}, status=status)
    site = HttpSite(app, HttpAddress(), limits=limits, tls=tls, drain=0.1)
    running = asyncio.create_task(site.run())
    await site.listening()
    try:
        async with asyncio.timeout(30):
            yield Served(site, began)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def emptied(served: Served) -> None:
    """Wait until no connection is open."""
    while served.site.connections.current:  # noqa: ASYNC110 - there is no event for the close of the other end
        await asyncio.sleep(0)


async def ended(streams: Streams) -> bytes:
    """All data of a connection until it is closed."""
    said = b""
    with suppress(ConnectionError):
        said = await streams[0].read()
    streams[1].close()
    return said


async def test_an_idle_connection_is_evicted_for_a_new_one_and_a_busy_one_is_not() -> None:
    async with serving_site(HttpLimits(connections=2, per_address=2)) as served:
        busy = await served.occupy()
        waiting = await served.connect(GET)
        await waiting[0].readuntil(b"hello")

        new = await served.connect(GET)

        assert (await new[0].readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        assert await ended(waiting) == b""
        assert not busy[0].at_eof()
        assert served.site.connections.evicted == 1
        for _, writer in (busy, new):
            writer.close()


async def test_an_address_at_its_limit_gets_the_error_response_and_others_are_served() -> None:
    async with serving_site(HttpLimits(connections=3, per_address=2)) as served:
        taken = [await served.occupy() for _ in range(2)]

        refused = await ended(await served.connect())
        other = await served.connect(GET, caller="127.0.0.2")

        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 2\r\n" in refused
        assert b'{"error": "all connections are in use' in refused
        assert (await other[0].readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        assert served.site.connections.refusals == {"address": 1, "descriptors": 0, "total": 0}
        for _, writer in (*taken, other):
            writer.close()


def test_a_client_that_does_not_receive_its_response_is_evicted_after_a_while() -> None:
    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(16 * 2**20))

    async def story() -> list[bytes]:
        app = web.Application()
        app.router.add_get("/large", large)
        async with serving(app, HttpAddress(), limits=HttpLimits(connections=1)) as bound:
            _, slow = await asyncio.open_connection(bound.host, bound.port)
            slow.write(GET.replace(b"/ ", b"/large ", 1))
            answers = []
            for seconds in (1.0, 6.0):
                await asyncio.sleep(seconds)
                reader, writer = await asyncio.open_connection(bound.host, bound.port)
                writer.write(GET)
                answers.append((await reader.readline()).split()[1])
                writer.close()
            slow.transport.abort()
        return answers

    assert run_virtual(story()) == [b"503", b"404"]


async def test_of_many_simultaneous_connections_the_last_is_served_and_the_others_are_closed() -> None:
    async with serving_site(HttpLimits(connections=1)) as served:
        callers = await asyncio.gather(*(served.connect() for _ in range(20)))
        await asyncio.gather(*(ended(caller) for caller in callers[:-1]))

        callers[-1][1].write(GET)

        assert (await callers[-1][0].readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        assert (served.site.connections.evicted, served.site.connections.current) == (19, 1)
        callers[-1][1].close()


async def test_a_closed_connection_frees_its_slot() -> None:
    async with serving_site(HttpLimits(connections=1)) as served:
        for _ in range(3):
            _, writer = await served.occupy()
            writer.close()
            await emptied(served)

        assert served.site.connections.evicted == 0


async def test_a_handshake_that_times_out_is_closed_and_counted(tmp_path: Path) -> None:
    limits = HttpLimits(handshake_seconds=0.05)
    async with serving_site(limits, tls=server_tls(tmp_path)) as served:
        assert await ended(await served.connect()) == b""

        await emptied(served)
        assert served.site.connections.timeouts["handshake"] == 1


async def test_a_handshake_is_evicted_for_a_new_client(tmp_path: Path) -> None:
    async with serving_site(HttpLimits(connections=1), tls=server_tls(tmp_path)) as served:
        silent = await served.connect()
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))

        reader, writer = await asyncio.open_connection("127.0.0.1", served.site.bound.port, ssl=trusting)
        writer.write(GET)

        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 ")
        assert await ended(silent) == b""
        writer.close()


async def test_a_client_without_tls_leaves_nothing_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with serving_site(HttpLimits(), tls=server_tls(tmp_path)) as served:
        await ended(await served.connect(GET))

        await emptied(served)
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_site_exports_its_connection_counters() -> None:
    registry = CollectorRegistry()
    async with serving_site(HttpLimits(connections=2, head_seconds=0.05)) as served:
        ConnectionCollector(registry, [served.site])
        await ended(await served.connect(GET[:10]))
        name = {"site": served.site.name}

        assert registry.get_sample_value("gpuruntime_http_connections_limit", name) == 2
        assert registry.get_sample_value("gpuruntime_http_connections_evicted_total", name) == 0
        head = {**name, "phase": "head"}
        assert registry.get_sample_value("gpuruntime_http_connections_timed_out_total", head) == 1


async def test_a_host_name_with_several_addresses_is_listened_on() -> None:
    site = HttpSite(web.Application(), HttpAddress("localhost"))
    running = asyncio.create_task(site.run())
    await site.listening()

    _, writer = await asyncio.open_connection("localhost", site.bound.port)

    writer.close()
    running.cancel()
    await asyncio.wait([running])


async def test_an_unknown_host_cannot_be_listened_on() -> None:
    site = HttpSite(web.Application(), HttpAddress("no-such-host.invalid"))

    with pytest.raises(ListenError, match=r"no-such-host\.invalid:0"):
        await site.run()


def server_tls(directory: Path) -> ssl.SSLContext:
    pair = Authority.create(directory, "test").issue("server", "server", hosts=("127.0.0.1",))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    return context
