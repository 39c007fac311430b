"""Stock whose status is set by the bench, for figures that depend only on the amount of stock."""

import asyncio
import json
import ssl

import aiohttp

from gpuruntime.testing.progress import Progress
from hack.benchmarks.api.serving import STOCK_UNITS, Served, stock_unit
from hack.benchmarks.creating import ObjectsError, create_objects

__all__ = ["add_stock"]

_CONNECTIONS = 16
_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Running",
    "message": "The bench says so.",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
    "observedGeneration": 1,
}
_STATUS = {"status": {"phase": "Ready", "observedGeneration": 1, "conditions": [_READY]}}


async def add_stock(world: Served, known: int, wanted: int, spec_name: str, progress: Progress) -> None:
    """Create the ready units `known` to `wanted - 1`, while reconcilers are paused.

    Raises:
        ObjectsError: the API server refused one.
    """
    await create_objects(
        world.access, STOCK_UNITS, lambda number: stock_unit(known + number, spec_name), wanted - known, progress
    )
    tls = ssl.create_default_context(cafile=str(world.access.authority))
    tls.load_cert_chain(world.access.certificate, world.access.key)
    numbers = iter(range(known, wanted))
    headers = {"Content-Type": "application/merge-patch+json"}

    async def mark_ready(session: aiohttp.ClientSession) -> None:
        for number in numbers:
            path = f"{STOCK_UNITS}/unit-{number:05d}/status"
            async with session.patch(path, data=json.dumps(_STATUS)) as answer:
                if answer.status != 200:
                    raise ObjectsError(f"{path}: expected 200, got {answer.status}: {(await answer.text())[:256]}")
                await answer.read()

    connector = aiohttp.TCPConnector(ssl=tls, limit=_CONNECTIONS)
    async with (
        aiohttp.ClientSession(world.access.server, connector=connector, headers=headers) as session,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(_CONNECTIONS):
            group.create_task(mark_ready(session))
