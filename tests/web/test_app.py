from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from gpuruntime import __version__
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.web.app import install


async def ready(_request: web.Request) -> web.Response:
    """Whether it can serve requests."""
    return web.Response(text="ok")


async def test_the_list_of_routes_has_every_route_with_its_purpose() -> None:
    app = web.Application()
    app.router.add_get("/readyz", ready)
    install(app, (), AccessControl(Access.DEVELOPMENT), CollectorRegistry())

    async with TestClient(TestServer(app)) as client:
        page = await (await client.get("/")).text()

    assert __version__ in page
    assert "<code>/readyz</code></td><td>Whether it can serve requests.</td>" in page
