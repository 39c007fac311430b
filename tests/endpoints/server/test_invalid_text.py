"""Bytes that are not UTF-8, anywhere in a request, are an error of the caller and not of the server."""

import json

import pytest
from aiohttp import web

from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.endpoint import mount
from tests.endpoints.endpoint_scenes import TOKENS, Widgets, answer_to

DELETE = b"DELETE /api/v1/widgets/a HTTP/1.1\r\n"
GET = b"GET /api/v1/widgets/a HTTP/1.1\r\n"
POST = b"POST /api/v1/widgets HTTP/1.1\r\nContent-Length: 2\r\n"
HOST = b"Host: localhost\r\n"


def api(access: Access) -> web.Application:
    app = web.Application()
    mount(app, Widgets().routes(), AccessControl(access, TOKENS))
    return app


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"If-Match: \xff", 400),
        (b"If-Match: W/\xff", 412),
        (b'If-Match: "\xff"', 400),
        (b"X-Resource-Version: \xff", 400),
        (b"Idempotency-Key: \xff", 400),
        (b"Authorization: Bearer \xff", 401),
        (b"Authorization: \xff", 401),
        (b"Origin: http://\xff", 403),
        (b"Sec-Fetch-Site: \xff", 403),
        (b"X-Forwarded-For: \xff", 403),
        (b"Expect: \xff", 417),
    ],
)
async def test_a_header_with_invalid_utf_8_is_an_error_response(header: bytes, status: int) -> None:
    answered, headers, body = await answer_to(DELETE + HOST + header + b"\r\n\r\n", api(Access.DEVELOPMENT))

    assert (answered, headers["content-type"]) == (status, "application/json")
    assert json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    "header",
    [b"Content-Type: text/\xff", b"Content-Type: application/json; charset=\xff", b"Content-Encoding: \xff"],
)
async def test_a_content_header_with_invalid_utf_8_is_an_error_response(header: bytes) -> None:
    answered, headers, body = await answer_to(POST + HOST + header + b"\r\n\r\n", api(Access.DEVELOPMENT))

    assert (answered, headers["content-type"]) == (415, "application/json")
    assert json.loads(body)["error"]["message"]


@pytest.mark.parametrize(
    "header", [b"X-Request-ID: \xff", b"If-None-Match: \xff", b"Last-Event-ID: \xff", b"X-Y: \xff"]
)
async def test_invalid_utf_8_in_other_headers_is_ignored(header: bytes) -> None:
    status, headers, _ = await answer_to(GET + HOST + header + b"\r\n\r\n", api(Access.DEVELOPMENT))

    assert (status, headers["x-request-id"].isalnum()) == (200, True)


@pytest.mark.parametrize(("access", "status"), [(Access.DEVELOPMENT, 403), (Access.OPEN, 200)])
async def test_a_host_with_invalid_utf_8_is_not_a_loopback_name(access: Access, status: int) -> None:
    answered, *_ = await answer_to(GET + b"Host: \xff\r\n\r\n", api(access))

    assert answered == status


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/\xff", 400),
        (b"/%FF", 404),
        (b"/api/v1/widgets/\xff", 400),
        (b"/api/v1/widgets?\xff=1", 400),
        (b"/api/v1/widgets?limit=\xff", 400),
        (b"/api/v1/widgets?limit=%FF", 400),
        (b"/api/v1/widgets?watch=\xff", 400),
    ],
)
async def test_a_path_or_query_with_invalid_utf_8_is_an_error_response(target: bytes, status: int) -> None:
    sent = b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n"

    answered, headers, body = await answer_to(sent, api(Access.DEVELOPMENT))

    assert (answered, headers["content-type"]) == (status, "application/json")
    assert json.loads(body)["error"]["message"]
