"""A client of the API, and bare writes to the API server to compare with."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from attrs import define, field

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.client import Client
from gpuruntime.kube.patches import MergePatch
from gpuruntime.kube.transport.transport import Transport
from gpuruntime.testing.progress import Progress
from hack.benchmarks.api.serving import BARE, BARE_UNITS, Served, stock_unit
from hack.benchmarks.creating import ObjectsError, create_objects
from hack.benchmarks.scenario import Bench

__all__ = ["ApiCaller", "BarePatches", "all_ready", "api_caller", "bare_patches", "settled"]

_IN_FLIGHT = 512
_LATER = frozenset({503, 504})
_LOOK_SECONDS = 0.5


@define
class ApiCaller:
    """A client of the API without a connection limit; `sent_again` counts retries after 503 and 504."""

    session: aiohttp.ClientSession = field(repr=False)
    sent_again: int = 0

    async def ask(self, method: str, path: str, *statuses: int, body: Any = None) -> bytes:
        """Send a request and return the body; 503 and 504 are retried at once and counted.

        Raises:
            ObjectsError: it has a status that was not expected.
        """
        while True:
            async with self.session.request(method, f"/api/v1{path}", json=body) as response:
                said = await response.read()
            if response.status in statuses:
                return said
            if response.status not in _LATER:
                raise ObjectsError(f"{method} {path}: expected {statuses}, got {response.status}: {said[:300]!r}")
            self.sent_again += 1

    async def claim(self, name: str, spec_name: str) -> None:
        """Create a unit from stock, with retries."""
        await self.ask("POST", "/gpu-units", 201, 200, body=_order(name, spec_name))

    async def try_to_claim(self, name: str, spec_name: str) -> int:
        """Request a unit from stock once; returns the status, which is 504 if the result is not known in time.

        Raises:
            ObjectsError: it has a status that was not expected.
        """
        async with self.session.post("/api/v1/gpu-units", json=_order(name, spec_name)) as response:
            said = await response.read()
        if response.status not in {200, 201, *_LATER}:
            raise ObjectsError(f"claim of {name}: expected 200 or 201, got {response.status}: {said[:300]!r}")
        return response.status

    async def claim_without_stock(self, name: str, spec_name: str) -> None:
        """Request a unit of a flavour without stock."""
        await self.ask("POST", "/gpu-units", 409, body=_order(name, spec_name))

    async def seed(self, spec_name: str, units: int) -> None:
        """Seed stock units with one GPU each."""
        body = {"operationID": f"seed-{spec_name}", "specName": spec_name, "memory": "16Mi", "gpu": 1}
        await self.ask("POST", "/operator/stock-units", 202, 200, body=body | {"replicas": units})


def _order(name: str, spec_name: str) -> dict[str, str]:
    return {"operationID": f"order-{name}", "name": name, "specName": spec_name, "image": "nginx"}


@asynccontextmanager
async def api_caller(world: Served) -> AsyncIterator[ApiCaller]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(world.url, connector=connector) as session:
        yield ApiCaller(session)


class BarePatches:
    """Conditional PATCHes of units that no controller watches: the cost of a single write."""

    def __init__(self, client: Client, versions: dict[str, str]) -> None:
        self._client = client
        self._versions = versions

    async def patch(self, name: str) -> None:
        """Write an annotation to a unit, with the resourceVersion of the last write."""
        patch = MergePatch({"metadata": {"annotations": {"bench": "written"}}}).locked(self._versions[name])
        written = await self._client.patch(GPUUnit, name, BARE, patch)
        self._versions[name] = written.metadata.resource_version


@asynccontextmanager
async def bare_patches(world: Served, units: int, progress: Progress) -> AsyncIterator[BarePatches]:
    """Create `units` units to patch."""
    await create_objects(world.access, BARE_UNITS, lambda number: stock_unit(number, "bare"), units, progress)
    credentials = from_kubeconfig(world.access.kubeconfig)
    async with Transport(credentials, user_agent="bench", max_in_flight=_IN_FLIGHT) as transport:
        client = Client(transport, field_manager="bench")
        found = (await client.list(GPUUnit, BARE)).items
        yield BarePatches(client, {unit.metadata.name: unit.metadata.resource_version for unit in found})


async def all_ready(caller: ApiCaller, bench: Bench, units: int) -> None:
    """Wait until `units` stock units are ready."""
    ready = 0
    while ready < units:
        await asyncio.sleep(_LOOK_SECONDS)
        ready = json.loads(await caller.ask("GET", "/health", 200))["data"]["availableStockUnitCount"]
        bench.progress.advance("ready stock units", ready, units)


async def settled(caller: ApiCaller, bench: Bench) -> None:
    """Wait until no unit and no stock unit is Progressing: active pods may have preempted stock."""
    for collection in ("/gpu-units", "/operator/stock-units"):
        while json.loads(await caller.ask("GET", f"{collection}?phase=Progressing&limit=1", 200))["data"]:
            bench.progress.advance("units get ready", 0, 1)
            await asyncio.sleep(_LOOK_SECONDS)
