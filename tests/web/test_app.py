from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from gpuruntime import __version__
from gpuruntime.web.app import install, until_ready
from gpuruntime.web.auth.access_control import Access, AccessControl
from gpuruntime.web.server.route import Call, Reply, Route, Scope


async def ready(_request: web.Request) -> web.Response:
    """Whether it can serve requests."""
    return web.Response(text="ok")


async def answer(_call: Call) -> Reply:
    """Answers."""
    return Reply(204)


def routes() -> tuple[Route, ...]:
    return tuple(Route("GET", path, answer, "It", Scope.READ, name="get") for path in ("/health", "/units"))


async def test_the_docs_page_lists_every_route_with_its_purpose() -> None:
    app = web.Application()
    app.router.add_get("/readyz", ready)
    install(app, (), AccessControl(Access.DEVELOPMENT), CollectorRegistry())

    async with TestClient(TestServer(app)) as client:
        page = await (await client.get("/")).text()

    assert __version__ in page
    assert "<code>/readyz</code></td><td>Whether it can serve requests.</td>" in page


async def test_until_there_is_no_reason_any_more_only_health_is_served() -> None:
    reasons = ["the cluster has not been seen yet"]
    app = web.Application()
    install(
        app, until_ready(routes(), lambda: "".join(reasons)), AccessControl(Access.DEVELOPMENT), CollectorRegistry()
    )

    async with TestClient(TestServer(app)) as client:
        health, early = await client.get("/api/v1/health"), await client.get("/api/v1/units")
        error = (await early.json())["error"]
        reasons.clear()
        late = await client.get("/api/v1/units")

    assert (health.status, early.status, late.status) == (204, 503, 204)
    assert (error["message"], early.headers["Retry-After"]) == ("the cluster has not been seen yet", "2")


def test_what_a_guarded_handler_says_about_itself_is_kept() -> None:
    guarded = until_ready(routes(), str)

    assert [route.handler.__doc__ for route in guarded] == ["Answers.", "Answers."]
