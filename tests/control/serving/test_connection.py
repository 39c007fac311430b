"""Timeouts of a connection, in virtual time: both ends are in the same loop."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import ClientSession, web, web_protocol
from yarl import URL

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.testing.virtual_time import run_virtual

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
EVER = 4000.0


def application() -> web.Application:
    async def hello(_request: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def read(request: web.Request) -> web.Response:
        return web.Response(text=await request.text())

    async def long(_request: web.Request) -> web.Response:
        await asyncio.sleep(600)
        return web.Response(text="at last")

    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=b"0" * 16 * 2**20)

    app = web.Application()
    app.router.add_get("/", hello)
    app.router.add_post("/", read)
    app.router.add_get("/long", long)
    app.router.add_get("/large", large)
    return app


async def seconds_until_closed(*parts: bytes, every: float = 0.0, reads: bool = True) -> float:
    """How long a connection lasts that sends these parts one after another; `EVER` if it does not end."""
    loop = asyncio.get_running_loop()
    async with serving(application(), HttpAddress()) as bound:
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        began = loop.time()
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(EVER):
                for part in parts:
                    writer.write(part)
                    await asyncio.sleep(every)
                    if writer.transport.is_closing():
                        return loop.time() - began
                while reads and await reader.read(2**16):
                    pass
                while not reads and not writer.transport.is_closing():
                    writer.write(b"\r\n")
                    await asyncio.sleep(1)
        lasted = loop.time() - began
        writer.transport.abort()
    return lasted


@pytest.mark.parametrize(
    ("parts", "most"),
    [
        pytest.param((), 10, id="nothing at all"),
        pytest.param((GET[:20],), 10, id="half of the headers"),
        pytest.param((GET,), 75, id="a whole request, and nothing after it"),
        pytest.param((GET, GET[:20]), 75, id="a whole request, and half of the next one"),
    ],
)
def test_a_silent_connection_is_closed(parts: tuple[bytes, ...], most: float) -> None:
    assert run_virtual(seconds_until_closed(*parts)) <= most


def test_headers_sent_byte_by_byte_get_no_extra_time() -> None:
    drops = tuple(bytes([byte]) for byte in GET)

    assert run_virtual(seconds_until_closed(*drops, every=9.0)) <= 40


def test_a_partial_next_request_has_the_same_timeout() -> None:
    assert run_virtual(seconds_until_closed(GET, GET[:20], every=30.0)) <= 30 + 10 + 30


def test_a_response_that_is_not_received_times_out() -> None:
    assert run_virtual(seconds_until_closed(GET.replace(b"/ ", b"/large ", 1), reads=False)) <= 65


def test_a_long_request_is_answered() -> None:
    async def story() -> bytes:
        async with serving(application(), HttpAddress()) as bound:
            reader, writer = await asyncio.open_connection(bound.host, bound.port)
            writer.write(GET.replace(b"/ ", b"/long ", 1))
            answer = await reader.readuntil(b"at last")
            writer.close()
        return answer

    assert run_virtual(story()).startswith(b"HTTP/1.1 200 ")


def test_an_unread_body_is_not_awaited() -> None:
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"

    assert run_virtual(seconds_until_closed(head)) <= 5


def test_the_response_to_an_unread_body_has_connection_close() -> None:
    async def story() -> bytes:
        async with serving(application(), HttpAddress()) as bound:
            reader, writer = await asyncio.open_connection(bound.host, bound.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\n")
            answer = await reader.readuntil(b"hello")
            writer.close()
        return answer

    assert b"\r\nConnection: close\r\n" in run_virtual(story())


@pytest.mark.parametrize(
    "chunk", [pytest.param(b"1\r\na\r\n", id="tiny"), pytest.param(b"1;" + b"x" * 1000 + b"\r\na\r\n", id="extended")]
)
async def test_a_body_of_mostly_chunk_headers_is_not_read_to_its_end(chunk: bytes) -> None:
    most, sent = 8 * 2**20, 0
    async with serving(application(), HttpAddress()) as bound, asyncio.timeout(30):
        _, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            while sent < 2 * most:
                writer.write(chunk * 100)
                sent += 100 * len(chunk)
                await writer.drain()
        writer.close()

    assert sent < most


async def test_a_path_of_very_many_segments_is_refused_before_it_is_routed() -> None:
    async with (
        serving(application(), HttpAddress()) as bound,
        ClientSession() as session,
        session.get(URL(f"{bound.url}/{'a/' * 5000}", encoded=True)) as response,
    ):
        reason = await response.text()

    assert (response.status, reason) == (400, "a path of 5001 segments, expected at most 64")


def test_malformed_http_is_answered_once_and_the_rest_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[object] = []

    class Counted(web_protocol._ErrInfo):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            errors.append(self)

    monkeypatch.setattr(web_protocol, "_ErrInfo", Counted)

    async def story() -> bytes:
        async with serving(application(), HttpAddress()) as bound:
            reader, writer = await asyncio.open_connection(bound.host, bound.port)
            writer.write(b"a" * 2**20)
            answer = await reader.readuntil(b" 400 ")
            writer.transport.abort()
        return answer

    assert run_virtual(story()).startswith(b"HTTP/1.")
    assert len(errors) == 1
