"""Middleware between a client and a transport."""

from typing import TYPE_CHECKING

from aiohttp import web
from attrs import evolve

from gpuruntime.kube import Client, Middleware, Request, Response
from gpuruntime.kube.builtin.core import ConfigMap

if TYPE_CHECKING:
    from tests.kube.conftest import Serve, TransportTo


class Impersonating(Middleware):
    """Adds a query parameter to every request."""

    async def send(self, request: Request) -> Response:
        return await self.inner.send(evolve(request, params={**dict(request.params), "as": "alice"}))


async def test_middleware_says_only_what_it_adds_and_can_be_stacked(
    serve: "Serve", transport_to: "TransportTo"
) -> None:
    seen: list[str] = []

    async def handler(request: web.BaseRequest) -> web.Response:
        seen.append(request.raw_path)
        return web.json_response({"metadata": {"name": "x", "namespace": "a"}})

    transport = transport_to(await serve(handler))
    stack = Middleware(Impersonating(Middleware(transport)))
    await Client(stack, field_manager="tester").get(ConfigMap, "x", "a")
    async with stack.stream(Request("GET", "/w"), idle_timeout=5.0) as chunks:
        streamed = b"".join([chunk async for chunk in chunks])

    assert seen == ["/api/v1/namespaces/a/configmaps/x?as=alice", "/w"]
    assert b'"x"' in streamed
