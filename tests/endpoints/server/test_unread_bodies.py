"""A body is neither requested, read nor decompressed before its caller is authorized and its route exists."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry

from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.processes.wiring.api_server import memory_api
from gpuruntime.web.app import install
from tests.endpoints.endpoint_scenes import TOKENS, answer_to

POST = "POST /api/v1/stocks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
UNKNOWN_ROUTE = "POST /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\n"
WRONG_METHOD = "PATCH /api/v1/stocks HTTP/1.1\r\nHost: localhost\r\n"
OPERATOR = "Authorization: Bearer operator\r\n"
READER = "Authorization: Bearer read\r\n"
MOST_DRAINED = 4 * 2**20


def product() -> web.Application:
    """The routes of the product without a cluster, for callers with a token."""
    app = web.Application()
    install(app, memory_api().routes, AccessControl(Access.CREDENTIALS, TOKENS), CollectorRegistry())
    return app


@asynccontextmanager
async def connected(app: web.Application) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with serving(app, HttpAddress()) as bound, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        try:
            yield reader, writer
        finally:
            writer.close()


async def test_a_compressed_body_is_not_decompressed() -> None:
    async def length(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    app = web.Application()
    app.router.add_post("/", length)
    sent = gzip.compress(b"0" * 2**20)

    async with (
        serving(app, HttpAddress()) as bound,
        ClientSession() as session,
        session.post(bound.url, data=sent, headers={"Content-Encoding": "gzip"}) as response,
    ):
        seen = int(await response.text())

    assert seen == len(sent)


@pytest.mark.parametrize(
    ("request_line", "caller", "status"),
    [
        (POST, "", 401),
        (POST, READER, 403),
        (POST, OPERATOR, 415),
        (UNKNOWN_ROUTE, OPERATOR, 404),
        (WRONG_METHOD, OPERATOR, 405),
    ],
)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "x-gzip", "identity, gzip", "rot13"])
async def test_a_compressed_body_is_rejected_without_being_read(
    request_line: str, caller: str, status: int, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    broken = b"\x1f\x8b\x08\x00 this is no gzip"
    head = f"{request_line}{caller}Content-Encoding: {encoding}\r\nContent-Length: {len(broken)}\r\n\r\n"

    answered, headers, body = await answer_to(head.encode() + broken, product())

    assert (answered, headers["content-type"]) == (status, "application/json")
    assert json.loads(body)["error"]["message"]
    assert [record.getMessage() for record in caplog.records] == []


async def test_an_encoding_in_a_second_header_is_rejected() -> None:
    head = f"{POST}{OPERATOR}Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n"

    status, _, body = await answer_to(head.encode() + b"{}", product())

    assert (status, json.loads(body)["error"]["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("request_line", "caller", "status"),
    [(POST, "", 401), (POST, READER, 403), (UNKNOWN_ROUTE, "", 404), (WRONG_METHOD, "", 405), (POST, OPERATOR, 100)],
)
async def test_100_continue_is_sent_only_for_a_known_route_and_an_authorized_caller(
    request_line: str, caller: str, status: int
) -> None:
    async with connected(product()) as (reader, writer):
        writer.write(f"{request_line}{caller}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode())
        first = await reader.readline()

    assert int(first.split()[1]) == status


async def test_the_body_after_100_continue_is_read() -> None:
    async with connected(product()) as (reader, writer):
        writer.write(f"{POST}{OPERATOR}Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"{}")
        second = await reader.readline()

    assert int(second.split()[1]) == 400


async def test_http_1_0_gets_no_100_continue() -> None:
    head = f"{POST}{OPERATOR}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".replace("HTTP/1.1", "HTTP/1.0")

    status, *_ = await answer_to(head.encode() + b"{}", product())

    assert status == 400


@pytest.mark.parametrize("framing", ["Content-Length: 1099511627776", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(("request_line", "caller"), [(POST, ""), (POST, READER), (UNKNOWN_ROUTE, OPERATOR)])
async def test_an_endless_body_is_not_read_after_an_error(framing: str, request_line: str, caller: str) -> None:
    piece = b"0" * 2**16
    sent = f"{2**16:x}\r\n".encode() + piece + b"\r\n" if "chunked" in framing else piece
    taken = 0

    async with connected(product()) as (reader, writer):
        writer.write(f"{request_line}{caller}{framing}\r\n\r\n".encode())
        first = await reader.readline()
        # The two socket buffers hold some of it, hence the slack.
        while taken < 4 * MOST_DRAINED:
            writer.write(sent)
            try:
                await writer.drain()
            except ConnectionError:
                break
            taken += len(sent)

    assert int(first.split()[1]) in {401, 403, 404}
    assert taken < 4 * MOST_DRAINED


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, gzip", "identity"])
async def test_a_transfer_encoding_other_than_chunked_is_rejected(coding: str) -> None:
    status, _, body = await answer_to(f"{POST}{OPERATOR}Transfer-Encoding: {coding}\r\n\r\n".encode(), product())

    assert (status, json.loads(body)["error"]["code"]) in {
        (400, "invalid_request"),
        (415, "unsupported_media_type"),
    }


async def test_an_upgrade_request_is_handled_as_an_ordinary_one() -> None:
    head = f"{POST}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"

    status, *_ = await answer_to(head.encode() + b"\x1f\x8b\x08\x00", product())

    assert status == 401
