"""The API without a cluster, over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.service.compat.memory import MemoryMachines
from gpuruntime.web.app import install, machine_routes
from gpuruntime.web.resources.health import HealthRoutes

Answered = tuple[int, Any]
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


class Api:
    """A caller of the API."""

    def __init__(self, client: "TestClient[web.Request, web.Application]") -> None:
        self._client = client

    async def call(self, method: str, path: str, **options: Any) -> Answered:
        """The status, and the data or the error."""
        async with self._client.request(method, f"/api/v1{path}", **options) as response:
            body = await response.json()
        return response.status, body.get("data", body.get("error"))

    async def page(self, path: str) -> dict[str, Any]:
        """The whole response to a GET."""
        async with self._client.get(f"/api/v1{path}") as response:
            body: dict[str, Any] = await response.json()
        return body


@asynccontextmanager
async def api_without_cluster() -> AsyncIterator[Api]:
    """The API, served for the length of the block."""
    machines = MemoryMachines()

    async def kube_error() -> None:
        """There is no cluster."""

    health = HealthRoutes(machines.take, kube_error, lambda: datetime(2026, 1, 1, 0, 1, tzinfo=UTC), STARTED)
    app = web.Application()
    install(app, machine_routes(health, machines), AccessControl(Access.DEVELOPMENT), CollectorRegistry())
    async with TestClient(TestServer(app)) as client:
        yield Api(client)
