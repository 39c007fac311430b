"""Streams: chunks as they come, and every way in which they can end."""

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from gpuruntime.kube import Endpoint, ExpiredError, TooManyRequestsError, UnavailableError, UnexpectedResponseError
from gpuruntime.kube.transport.request import Request

if TYPE_CHECKING:
    from tests.kube.conftest import Serve, Tokens, TransportTo


class Stream:
    """A server that streams what a test gives it; None ends cleanly."""

    def __init__(self) -> None:
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.opened = asyncio.Event()
        self.left = asyncio.Event()
        self.request: web.BaseRequest | None = None

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.request = request
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        self.opened.set()
        try:
            while (chunk := await self.chunks.get()) is not None:
                await response.write(chunk)
        finally:
            self.left.set()
        return response

    def cut(self) -> None:
        assert self.request is not None
        assert self.request.transport is not None
        self.request.transport.abort()


async def test_chunks_arrive_as_they_are_sent_and_the_end_is_clean(serve: "Serve", transport_to: "TransportTo") -> None:
    server = Stream()
    transport = transport_to(await serve(server))

    received: list[bytes] = []
    async with transport.stream(Request("GET", "/w", params={"watch": "1"}), idle_timeout=30.0) as chunks:
        for chunk in (b'{"half', b'":1}\n{"next":2}\n'):
            server.chunks.put_nowait(chunk)
            received.append(await anext(chunks))
        server.chunks.put_nowait(None)
        received += [chunk async for chunk in chunks]

    assert received == [b'{"half', b'":1}\n{"next":2}\n']
    assert server.request is not None
    assert server.request.raw_path == "/w?watch=1"
    assert transport.counts == {("200", "GET"): 1}


async def test_a_line_longer_than_any_buffer_arrives_whole(serve: "Serve", transport_to: "TransportTo") -> None:
    server = Stream()
    server.chunks.put_nowait(b"x" * (5 * 2**20))
    server.chunks.put_nowait(None)

    async with transport_to(await serve(server)).stream(Request("GET", "/w"), idle_timeout=30.0) as chunks:
        size = sum([len(chunk) async for chunk in chunks])

    assert size == 5 * 2**20


async def test_silence_is_an_error(serve: "Serve", transport_to: "TransportTo") -> None:
    server = Stream()
    server.chunks.put_nowait(b"{}\n")

    async with transport_to(await serve(server)).stream(Request("GET", "/w"), idle_timeout=2.0) as chunks:
        await anext(chunks)
        with pytest.raises(UnavailableError, match=r"GET /w: .* 2 s"):
            await anext(chunks)


async def test_a_lost_connection_is_an_error_and_no_clean_end(serve: "Serve", transport_to: "TransportTo") -> None:
    server = Stream()
    server.chunks.put_nowait(b"{}\n")

    async with transport_to(await serve(server)).stream(Request("GET", "/w"), idle_timeout=30.0) as chunks:
        await anext(chunks)
        server.cut()
        with pytest.raises(UnavailableError) as caught:
            await anext(chunks)

    assert caught.value.__cause__ is not None


async def test_leaving_drops_the_connection_without_reading_on(serve: "Serve", transport_to: "TransportTo") -> None:
    server = Stream()

    async with transport_to(await serve(server)).stream(Request("GET", "/w"), idle_timeout=30.0):
        await server.opened.wait()

    await server.left.wait()


async def test_cancelling_the_consumer_drops_the_connection(serve: "Serve", transport_to: "TransportTo") -> None:
    server = Stream()
    transport = transport_to(await serve(server))

    async def consume() -> None:
        async with transport.stream(Request("GET", "/w"), idle_timeout=30.0) as chunks:
            await anext(chunks)

    async with asyncio.TaskGroup() as group:
        consumer = group.create_task(consume())
        await server.opened.wait()
        consumer.cancel()

    await server.left.wait()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [(410, "Expired", ExpiredError), (429, "TooManyRequests", TooManyRequestsError), (503, "", UnavailableError)],
)
async def test_a_refused_stream_is_the_error_it_says_and_is_asked_for_once(
    serve: "Serve", transport_to: "TransportTo", code: int, reason: str, expected: type[Exception]
) -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        body = {"kind": "Status", "code": code, "reason": reason}
        return web.json_response(body, status=code, headers={"Retry-After": "1"})

    transport = transport_to(await serve(handler))
    with pytest.raises(expected):
        async with transport.stream(Request("GET", "/w"), idle_timeout=30.0):
            pass

    assert transport.counts == {(str(code), "GET"): 1}


async def test_a_page_of_a_proxy_is_no_stream(serve: "Serve", transport_to: "TransportTo") -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        return web.Response(text="<html>welcome", content_type="text/html")

    transport = transport_to(await serve(handler))
    with pytest.raises(UnexpectedResponseError, match=r"GET /w: .*text/html: <html>welcome"):
        async with transport.stream(Request("GET", "/w"), idle_timeout=30.0):
            pass


async def test_a_stream_that_does_not_begin_is_a_timeout(serve: "Serve", transport_to: "TransportTo") -> None:
    async def handler(_: web.BaseRequest) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    transport = transport_to(await serve(handler))
    with pytest.raises(UnavailableError, match=r"GET /w: .*0\.2 s"):
        async with transport.stream(Request("GET", "/w", timeout=0.2), idle_timeout=30.0):
            pass


async def test_a_stream_refreshes_a_refused_token(
    serve: "Serve", transport_to: "TransportTo", tokens: type["Tokens"]
) -> None:
    async def handler(request: web.BaseRequest) -> web.Response:
        good = request.headers["Authorization"] == "Bearer new"
        return web.json_response({}, status=200 if good else 401)

    transport = transport_to(tokens(Endpoint(await serve(handler)), "old", "new"))
    async with transport.stream(Request("GET", "/w"), idle_timeout=30.0) as chunks:
        received = [chunk async for chunk in chunks]

    assert received == [b"{}"]
    assert transport.counts == {("401", "GET"): 1, ("200", "GET"): 1}


async def test_two_hundred_streams_do_not_hold_up_a_hundred_requests(
    serve: "Serve", transport_to: "TransportTo"
) -> None:
    done = asyncio.Event()
    running = most = 0

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal running, most
        if request.path == "/w":
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(b"{}\n")
            await done.wait()
            return response
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return web.json_response({})

    transport = transport_to(await serve(handler), max_in_flight=8)
    opened = asyncio.Semaphore(0)

    async def watch() -> int:
        async with transport.stream(Request("GET", "/w"), idle_timeout=60.0) as chunks:
            await anext(chunks)
            opened.release()
            return len([chunk async for chunk in chunks])

    async with asyncio.TaskGroup() as group:
        watches = [group.create_task(watch()) for _ in range(200)]
        for _ in watches:
            await opened.acquire()
        async with asyncio.TaskGroup() as requests:
            answers = [requests.create_task(transport.send(Request("GET", "/x"))) for _ in range(100)]
        done.set()

    assert {answer.result().status for answer in answers} == {200}
    assert {watch.result() for watch in watches} == {0}
    assert 1 <= most <= 8
    assert transport.counts == {("200", "GET"): 300}
