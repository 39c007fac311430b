import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gpuruntime import __version__
from gpuruntime.web.app import install
from gpuruntime.web.errors import errors_as_json


def application() -> web.Application:
    app = web.Application()
    app.router.add_get("/readyz", ready)
    install(app)
    return app


async def ready(_request: web.Request) -> web.Response:
    """Whether it can serve requests."""
    return web.Response(text="ok")


async def test_the_docs_page_lists_every_route_with_its_purpose() -> None:
    async with TestClient(TestServer(application())) as client:
        page = await (await client.get("/")).text()

        assert __version__ in page
        assert "<code>/readyz</code></td><td>Whether it can serve requests.</td>" in page


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [("GET", "/nope", 404, "not_found"), ("POST", "/readyz", 405, "method_not_allowed")],
)
async def test_unknown_routes_and_methods_get_the_envelope(method: str, path: str, status: int, code: str) -> None:
    async with TestClient(TestServer(application())) as client:
        response = await client.request(method, path)

        error = (await response.json())["error"]
        assert (response.status, error["code"]) == (status, code)
        assert f"{method} {path}" in error["message"]


async def test_a_wrong_method_is_told_which_ones_are_right() -> None:
    async with TestClient(TestServer(application())) as client:
        response = await client.post("/readyz")

        assert response.headers["Allow"] == "GET,HEAD"


async def test_a_failing_handler_gives_500_without_its_secrets(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_request: web.Request) -> web.Response:
        raise RuntimeError("password is hunter2")

    app = web.Application(middlewares=[errors_as_json])
    app.router.add_get("/", fail)

    async with TestClient(TestServer(app)) as client:
        response = await client.get("/")

        assert (response.status, (await response.json())["error"]["code"]) == (500, "internal_error")
        assert "hunter2" not in await response.text()
        assert "hunter2" in caplog.text
