"""The readiness gate in front of routes."""

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.endpoint import mount
from gpuruntime.endpoints.server.gates import readiness_gate
from gpuruntime.endpoints.server.route import Call, Reply, Route, Scope


async def answer(_call: Call) -> Reply:
    """Answers."""
    return Reply(204)


def routes() -> tuple[Route, ...]:
    return tuple(Route("GET", path, answer, "It", Scope.READ, name="get") for path in ("/health", "/units"))


async def test_while_there_is_a_reason_not_to_be_ready_only_health_is_served() -> None:
    reasons = ["the caches have not synced yet"]
    app = web.Application()
    mount(app, readiness_gate(routes(), lambda: "".join(reasons)), AccessControl(Access.DEVELOPMENT))

    async with TestClient(TestServer(app)) as client:
        health, early = await client.get("/api/v1/health"), await client.get("/api/v1/units")
        error = (await early.json())["error"]
        reasons.clear()
        late = await client.get("/api/v1/units")

    assert (health.status, early.status, late.status) == (204, 503, 204)
    assert (error["message"], early.headers["Retry-After"]) == ("the caches have not synced yet", "2")


def test_a_gate_keeps_the_docstring_of_the_handler() -> None:
    gated = readiness_gate(routes(), str)

    assert [route.handler.__doc__ for route in gated] == ["Answers.", "Answers."]
