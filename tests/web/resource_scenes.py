"""The API of a running product, and a caller of it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientResponse, ClientTimeout, web
from aiohttp.test_utils import TestClient, TestServer
from attrs import field, frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.bus import Bus
from gpuruntime.control import Manager, ManagerOptions
from gpuruntime.endpoints.auth.access_control import Access, AccessControl
from gpuruntime.endpoints.server.endpoint import mount
from gpuruntime.endpoints.server.route import PREFIX
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.service.wiring import Service, ServiceOptions, install_service
from gpuruntime.web.app import cluster_routes
from tests.control.scenes import managing
from tests.product_scenes import eventually
from tests.service.service_scenes import QUICK, Product, ServiceWorld

__all__ = ["Answered", "Api", "Event", "Events", "serving", "serving_alone"]


@frozen
class Answered:
    """A response: its status, its headers and its JSON."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    json: Any

    @property
    def data(self) -> Any:
        assert "data" in self.json, self.json
        return self.json["data"]

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def paths(self) -> set[str]:
        """The paths of the faults."""
        return {fault["path"] for fault in self.json["error"].get("details", ())}


@frozen
class Event:
    """A server-sent event."""

    name: str
    id: str
    data: Any


class Events:
    """A stream of server-sent events. `last` is the last event id, as browsers keep it."""

    def __init__(self, response: ClientResponse, last: str = "") -> None:
        self.status = response.status
        self.last = last
        self._response = response

    async def next(self) -> Event:
        """The next event; comments are skipped."""
        fields: dict[str, str] = {}
        while True:
            line = (await self._response.content.readline()).decode()
            assert line, "the stream has ended"
            if line == "\n" and fields:
                self.last = fields.get("id", self.last)
                return Event(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
            name, _, text = line.rstrip("\n").partition(":")
            if name:
                fields[name] = text.removeprefix(" ")

    async def until(self, name: str) -> list[Event]:
        """The events up to the first of this name."""
        found = [await self.next()]
        while found[-1].name != name:
            found.append(await self.next())
        return found


@frozen
class Api:
    """A caller of the API."""

    client: "TestClient[web.Request, web.Application]" = field(repr=False)
    world: ServiceWorld

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        """Send a request. In the names of headers, _ stands for -."""
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        async with self.client.request(method, PREFIX + path, json=body, headers=sent) as response:
            text = await response.read()
            return Answered(response.status, response.headers, json.loads(text) if text else None)

    async def seed(self, operation_id: str, replicas: int, **fields: Any) -> Answered:
        body = {"operationID": operation_id, "specName": "g1.1", "cpu": "10m", "memory": "16Mi", "replicas": replicas}
        sent = {**body, "namespace": self.world.stock, **fields}
        return await self.call(
            "POST", "/operator/stock-units", {key: sent[key] for key in sent if sent[key] is not None}
        )

    async def create(self, operation_id: str, name: str, query: str = "", **fields: Any) -> Answered:
        """Create a unit, by default with a cold start."""
        cold = {"coldStart": True, "cpu": "10m", "memory": "16Mi"}
        body = {"operationID": operation_id, "name": name, "specName": "g1.1", "image": "nginx", **cold}
        namespaces = {"namespace": self.world.active, "stockNamespace": self.world.stock}
        sent = {key: value for key, value in {**body, **namespaces, **fields}.items() if value is not None}
        return await self.call("POST", f"/gpu-units{query}", sent)

    def unit(self, name: str, more: str = "") -> str:
        """The path of a unit, and what follows in the query."""
        return f"/gpu-units/{name}?namespace={self.world.active}{more}"

    def stock(self, collection: str, name: str) -> str:
        """The path of an object in the stock namespace."""
        return f"/operator/{collection}/{name}?namespace={self.world.stock}"

    @asynccontextmanager
    async def follow(self, path: str, last: str = "", at_least: str = "") -> AsyncIterator[Events]:
        """A stream of events after the one with id `last`."""
        headers = {"Last-Event-ID": last, "X-Resource-Version": at_least}
        sent = {name: text for name, text in headers.items() if text}
        forever = ClientTimeout(total=None)
        async with self.client.get(PREFIX + path, headers=sent, timeout=forever) as response:
            yield Events(response, last)


@asynccontextmanager
async def serving(product: Product, world: ServiceWorld, access: AccessControl | None = None) -> AsyncIterator[Api]:
    """The API of a product on its own port, for the length of the block; by default without credentials."""
    async with _api(product.service, world, access) as api:
        yield api


@asynccontextmanager
async def serving_alone(world: ServiceWorld, bus: Bus | None = None) -> AsyncIterator[Api]:
    """The API without reconcilers: the test writes the status of objects. By default without NATS."""
    credentials = from_kubeconfig(world.account.kubeconfig)
    manager = Manager(credentials, ManagerOptions("gpuruntime", grace=10.0))
    namespaces = Namespaces((world.active,), (world.stock,), world.active)
    service = install_service(manager, credentials, ServiceOptions(namespaces, timing=QUICK))
    async with managing(manager):
        await eventually(lambda: service.operations.is_accepting)
        await manager.cache.synced()
        async with _api(service, world, bus=bus) as api:
            yield api


@asynccontextmanager
async def _api(
    service: Service, world: ServiceWorld, access: AccessControl | None = None, bus: Bus | None = None
) -> AsyncIterator[Api]:
    app = web.Application()
    mount(app, cluster_routes(service, bus), access or AccessControl(Access.DEVELOPMENT))
    async with TestClient(TestServer(app)) as client:
        yield Api(client, world)
