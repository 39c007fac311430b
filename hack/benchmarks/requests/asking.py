"""What the bench asks of the API, and what it asks of the API server itself beside it."""

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
from hack.benchmarks.creating import ObjectsError, create_objects
from hack.benchmarks.requests.serving import BARE, BARE_UNITS, Served, stock_unit
from hack.benchmarks.scenario import Bench

__all__ = ["Asker", "BarePatches", "all_ready", "asking", "bare_patches", "settled"]

_IN_FLIGHT = 512
_LATER = frozenset({503, 504})
_LOOK_SECONDS = 0.5


@define
class Asker:
    """A client of the API with as many connections as it needs. `sent_again` counts what was refused for the moment."""

    session: aiohttp.ClientSession = field(repr=False)
    sent_again: int = 0

    async def ask(self, method: str, path: str, *statuses: int, body: Any = None) -> bytes:
        """The answer. What is refused for the moment is sent again at once, and counted.

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
        """Create a unit on stock, however often that has to be asked for."""
        await self.ask("POST", "/gpu-units", 201, 200, body=_order(name, spec_name))

    async def try_to_claim(self, name: str, spec_name: str) -> int:
        """Ask once for a unit on stock; gives the status, which is 504 if the answer is not known in time.

        Raises:
            ObjectsError: it has a status that was not expected.
        """
        async with self.session.post("/api/v1/gpu-units", json=_order(name, spec_name)) as response:
            said = await response.read()
        if response.status not in {200, 201, *_LATER}:
            raise ObjectsError(f"claim of {name}: expected 200 or 201, got {response.status}: {said[:300]!r}")
        return response.status

    async def claim_in_vain(self, name: str, spec_name: str) -> None:
        """Ask for a unit on stock of which there is none."""
        await self.ask("POST", "/gpu-units", 409, body=_order(name, spec_name))

    async def seed(self, spec_name: str, units: int) -> None:
        """Have stock made, with a GPU each."""
        body = {"operationID": f"seed-{spec_name}", "specName": spec_name, "memory": "16Mi", "gpu": 1}
        await self.ask("POST", "/operator/stock-units", 202, 200, body=body | {"replicas": units})


def _order(name: str, spec_name: str) -> dict[str, str]:
    return {"operationID": f"order-{name}", "name": name, "specName": spec_name, "image": "nginx"}


@asynccontextmanager
async def asking(world: Served) -> AsyncIterator[Asker]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(world.url, connector=connector) as session:
        yield Asker(session)


class BarePatches:
    """Conditional PATCHes of units that nobody else has to do with: what one write costs at least."""

    def __init__(self, client: Client, versions: dict[str, str]) -> None:
        self._client = client
        self._versions = versions

    async def patch(self, name: str) -> None:
        """Write a note into a unit that is as it was last seen."""
        patch = MergePatch({"metadata": {"annotations": {"bench": "written"}}}).locked(self._versions[name])
        written = await self._client.patch(GPUUnit, name, BARE, patch)
        self._versions[name] = written.metadata.resource_version


@asynccontextmanager
async def bare_patches(world: Served, units: int, progress: Progress) -> AsyncIterator[BarePatches]:
    """Patches of so many units, which are made for it."""
    await create_objects(world.access, BARE_UNITS, lambda number: stock_unit(number, "bare"), units, progress)
    credentials = from_kubeconfig(world.access.kubeconfig)
    async with Transport(credentials, user_agent="bench", max_in_flight=_IN_FLIGHT) as transport:
        client = Client(transport, field_manager="bench")
        found = (await client.list(GPUUnit, BARE)).items
        yield BarePatches(client, {unit.metadata.name: unit.metadata.resource_version for unit in found})


async def all_ready(asker: Asker, bench: Bench, units: int) -> None:
    """Returns when there is so much ready stock."""
    ready = 0
    while ready < units:
        await asyncio.sleep(_LOOK_SECONDS)
        ready = json.loads(await asker.ask("GET", "/health", 200))["data"]["availableStockUnitCount"]
        bench.progress.advance("ready stock units", ready, units)


async def settled(asker: Asker, bench: Bench) -> None:
    """Returns when no unit is on its way any more, and no stock: an active pod may have pushed some aside."""
    for collection in ("/gpu-units", "/operator/stock-units"):
        while json.loads(await asker.ask("GET", f"{collection}?phase=Progressing&limit=1", 200))["data"]:
            bench.progress.advance("units get ready", 0, 1)
            await asyncio.sleep(_LOOK_SECONDS)
