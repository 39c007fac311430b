"""Nothing of a body is inflated, asked for or waited for before its caller is known and its route exists."""

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry

from gpuruntime.control.serving.site import HttpAddress, serving
from gpuruntime.processes.wiring.api_server import memory_api
from gpuruntime.web.app import install
from gpuruntime.web.auth.access_control import Access, AccessControl
from tests.web.frame_scenes import TOKENS, answer_to

POST = "POST /api/v1/stocks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NOWHERE = "POST /api/v1/nothing HTTP/1.1\r\nHost: localhost\r\n"
WRONG_METHOD = "PATCH /api/v1/stocks HTTP/1.1\r\nHost: localhost\r\n"
KNOWN = "Authorization: Bearer operator\r\n"
MAY_NOT = "Authorization: Bearer read\r\n"
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


async def test_an_application_gets_a_body_as_it_was_sent_and_not_inflated() -> None:
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
    [(POST, "", 401), (POST, MAY_NOT, 403), (POST, KNOWN, 415), (NOWHERE, KNOWN, 404), (WRONG_METHOD, KNOWN, 405)],
)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP", "x-gzip", "identity, gzip", "rot13"])
async def test_a_body_in_any_encoding_is_refused_by_what_is_known_without_it(
    request_line: str, caller: str, status: int, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    broken = b"\x1f\x8b\x08\x00 this is no gzip"
    head = f"{request_line}{caller}Content-Encoding: {encoding}\r\nContent-Length: {len(broken)}\r\n\r\n"

    answered, headers, body = await answer_to(head.encode() + broken, product())

    assert (answered, headers["content-type"]) == (status, "application/json")
    assert json.loads(body)["error"]["message"]
    assert [record.getMessage() for record in caplog.records] == []


async def test_an_encoding_cannot_hide_behind_a_second_header() -> None:
    head = f"{POST}{KNOWN}Content-Encoding: identity\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n"

    status, _, body = await answer_to(head.encode() + b"{}", product())

    assert (status, json.loads(body)["error"]["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("request_line", "caller", "status"),
    [(POST, "", 401), (POST, MAY_NOT, 403), (NOWHERE, "", 404), (WRONG_METHOD, "", 405), (POST, KNOWN, 100)],
)
async def test_a_body_is_asked_for_only_if_its_caller_is_known_and_its_route_exists(
    request_line: str, caller: str, status: int
) -> None:
    async with connected(product()) as (reader, writer):
        writer.write(f"{request_line}{caller}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".encode())
        first = await reader.readline()

    assert int(first.split()[1]) == status


async def test_a_body_that_is_asked_for_is_read() -> None:
    async with connected(product()) as (reader, writer):
        writer.write(f"{POST}{KNOWN}Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"{}")
        second = await reader.readline()

    assert int(second.split()[1]) == 400


async def test_a_sender_of_http_1_0_is_asked_for_nothing() -> None:
    head = f"{POST}{KNOWN}Expect: 100-continue\r\nContent-Length: 2\r\n\r\n".replace("HTTP/1.1", "HTTP/1.0")

    status, *_ = await answer_to(head.encode() + b"{}", product())

    assert status == 400


@pytest.mark.parametrize("framing", ["Content-Length: 1099511627776", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(("request_line", "caller"), [(POST, ""), (POST, MAY_NOT), (NOWHERE, KNOWN)])
async def test_after_a_refusal_a_body_without_end_is_not_read_on(framing: str, request_line: str, caller: str) -> None:
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
async def test_a_transfer_in_another_coding_than_chunks_is_refused(coding: str) -> None:
    status, _, body = await answer_to(f"{POST}{KNOWN}Transfer-Encoding: {coding}\r\n\r\n".encode(), product())

    assert (status, json.loads(body)["error"]["code"]) in {
        (400, "invalid_request"),
        (415, "unsupported_media_type"),
    }


async def test_an_upgrade_that_no_route_takes_is_an_ordinary_request() -> None:
    head = f"{POST}Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n"

    status, *_ = await answer_to(head.encode() + b"\x1f\x8b\x08\x00", product())

    assert status == 401
