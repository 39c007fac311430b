"""Bytes that are not an HTTP request get an error response in the response format."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from gpuruntime.control.serving.bad_requests import ERROR_RESPONSE
from gpuruntime.control.serving.http_site import HttpAddress, serving
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.endpoint import mount
from tests.endpoints.endpoint_scenes import Widgets, answer_to

POST = b"POST /api/v1/widgets HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /api/v1/widgets HTTP/1.1\r\nHost: localhost\r\n"


def api(widgets: Widgets) -> web.Application:
    app = web.Application()
    mount(app, widgets.routes(), AccessControl(Access.DEVELOPMENT))
    return app


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", id="TLS on a plain port"),
        pytest.param(b"no request at all\r\n\r\n", id="no request line"),
        pytest.param(b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n", id="another protocol"),
        pytest.param(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", id="a long path"),
        pytest.param(GET + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n", id="a long header"),
        pytest.param(GET + b"X Y: 1\r\n\r\n", id="a malformed header"),
        pytest.param(POST + b"Content-Length: many\r\n\r\n", id="a length that is not a number"),
        pytest.param(POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", id="two lengths"),
    ],
)
async def test_bytes_that_are_not_http_get_an_error_in_the_response_format(sent: bytes) -> None:
    widgets = Widgets()

    status, headers, body = await answer_to(sent, api(widgets))

    error: dict[str, Any] = json.loads(body)["error"]
    assert (status, error["code"]) == (400, "invalid_request")
    assert (headers["content-type"], headers["server"]) == ("application/json", "gpuruntime")
    assert headers["x-request-id"]
    assert widgets.calls == []


@pytest.mark.parametrize(
    "chunks", [b"zz\r\n{}\r\n0\r\n\r\n", b"-1\r\n{}\r\n", b"2\r\n{}x\r\n0\r\n\r\n"], ids=["no size", "below 0", "more"]
)
async def test_a_body_with_invalid_chunks_gets_an_error_in_the_response_format(chunks: bytes) -> None:
    widgets = Widgets()

    status, _, body = await answer_to(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks, api(widgets))

    assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_request")
    assert widgets.calls == []


@pytest.mark.parametrize(
    ("expected", "length", "status"),
    [("100-continue", 2, 100), ("100-continue", 2**20 + 1, 413), ("a miracle", 2, 417)],
)
async def test_100_continue_is_sent_or_the_body_is_rejected_before_it_is_sent(
    expected: str, length: int, status: int
) -> None:
    headers = f"Expect: {expected}\r\nContent-Length: {length}\r\n\r\n"

    async with serving(api(Widgets()), HttpAddress()) as bound, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection(bound.host, bound.port)
        writer.write(POST + headers.encode())
        first = await reader.readuntil(b"\r\n\r\n")
        writer.close()

    assert int(first.split()[1]) == status
    assert (b"application/json" in first) == (status != 100)


async def test_a_connection_over_the_limit_gets_an_error_in_the_response_format() -> None:
    app = web.Application()
    mount(app, Widgets().routes(), AccessControl(Access.DEVELOPMENT))

    answer = app[ERROR_RESPONSE](503, "all connections are in use")

    assert isinstance(answer.body, bytes)
    assert json.loads(answer.body)["error"] == {"code": "service_unavailable", "message": "all connections are in use"}


async def test_an_application_without_a_format_of_its_own_answers_in_plain_text() -> None:
    status, headers, _ = await answer_to(b"no request at all\r\n\r\n", web.Application())

    assert (status, headers["content-type"]) == (400, "text/plain; charset=utf-8")
