"""Every response has a request id, and every error is in the response format."""

import asyncio
import logging

import pytest
from aiohttp import ClientPayloadError, web
from aiohttp.test_utils import TestClient, TestServer

from gpuruntime.endpoints.server.response_format import formatted
from gpuruntime.service.log_context import RequestFields
from tests.endpoints.endpoint_scenes import Widgets, bearer, serving_widgets


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "allow"),
    [
        ("GET", "/nope", 404, "not_found", None),
        ("POST", "/api/v1/nope", 404, "not_found", None),
        ("GET", "/api/v1/widgets/", 404, "not_found", None),
        ("PATCH", "/api/v1/widgets", 405, "method_not_allowed", "GET,HEAD,OPTIONS,POST"),
        ("PUT", "/swagger/index.html", 405, "method_not_allowed", "GET,HEAD"),
    ],
)
async def test_errors_of_unknown_routes_and_methods_are_in_the_response_format(
    method: str, path: str, status: int, code: str, allow: str | None
) -> None:
    async with serving_widgets(Widgets()) as client:
        response = await client.request(method, path)
        error = (await response.json())["error"]

    assert (response.status, error["code"], response.headers.get("Allow")) == (status, code, allow)
    assert f"{method} {path}" in error["message"]


async def test_a_request_id_is_kept_if_it_is_safe_to_log() -> None:
    async with serving_widgets(Widgets()) as client:
        kept = await client.get("/nope", headers={"X-Request-ID": "a1-b2"})
        spoilt = await client.get("/nope", headers={"X-Request-ID": 'x" forged="1'})
        longer = await client.get("/nope", headers={"X-Request-ID": "x" * 129})
        absent = await client.get("/nope")

    assert (kept.headers["X-Request-ID"], kept.headers["Server"]) == ("a1-b2", "gpuruntime")
    made = {answer.headers["X-Request-ID"] for answer in (spoilt, longer, absent)}
    assert len(made) == 3
    assert all(len(one) == 32 for one in made)


async def test_log_lines_of_a_request_have_its_id(caplog: pytest.LogCaptureFixture) -> None:
    widgets = Widgets()
    widgets.error = RuntimeError("broken")
    caplog.handler.addFilter(RequestFields())

    async with serving_widgets(widgets) as client:
        await client.get("/api/v1/widgets", headers={**bearer("read"), "X-Request-ID": "mine"})
        logging.getLogger("elsewhere").warning("outside")

    named = {record.getMessage(): getattr(record, "request_id", None) for record in caplog.records}
    assert named["request failed"] == "mine"
    assert named["outside"] is None


async def test_the_cause_of_an_internal_error_is_only_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_request: web.Request) -> web.Response:
        raise RuntimeError("password is hunter2")

    app = web.Application(middlewares=[formatted])
    app.router.add_get("/", fail)

    async with TestClient(TestServer(app)) as client:
        response = await client.get("/")

        assert (response.status, (await response.json())["error"]["code"]) == (500, "internal_error")
        assert "hunter2" not in await response.text()
        assert "hunter2" in caplog.text


async def test_a_stream_that_fails_is_cut_off() -> None:
    async with serving_widgets(Widgets()) as client:
        response = await client.get("/api/v1/stream", headers={**bearer("read"), "X-Request-ID": "mine"})

        assert response.headers["X-Request-ID"] == "mine"
        with pytest.raises(ClientPayloadError):
            await asyncio.wait_for(response.read(), 10)


async def test_redirects_are_not_errors() -> None:
    async with serving_widgets(Widgets()) as client:
        response = await client.get("/swagger/", allow_redirects=False)

    assert (response.status, response.headers["Location"]) == (302, "/swagger/index.html")
