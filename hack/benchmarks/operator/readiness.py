"""The bench's own watch of ready units."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.control import Cache, Change, projected
from gpuruntime.kube import Transport, from_kubeconfig
from gpuruntime.meta import ObjectKey
from gpuruntime.testing.progress import Progress

__all__ = ["Readiness", "watching_readiness"]


class Readiness:
    """The set of units whose status is ready."""

    def __init__(self, units: int, progress: Progress) -> None:
        self._units = units
        self._progress = progress
        self._ready: set[ObjectKey] = set()
        self._all = asyncio.Event()

    async def all_ready(self) -> None:
        """Wait until all units are ready at the same time."""
        await self._all.wait()

    def note(self, change: Change[bool]) -> None:
        (self._ready.add if change.after else self._ready.discard)(change.key)
        self._progress.advance("ready units", len(self._ready), self._units)
        if len(self._ready) == self._units:
            self._all.set()


@asynccontextmanager
async def watching_readiness(kubeconfig: Path, units: int, progress: Progress) -> AsyncIterator[Readiness]:
    """Watch this number of units for the length of the block."""
    readiness = Readiness(units, progress)
    async with Transport(from_kubeconfig(kubeconfig), user_agent="gpuruntime-bench") as transport:
        cache = Cache(transport)
        informer = cache.informer(projected(GPUUnit.KIND, is_ready))
        following = asyncio.create_task(cache.run())
        try:
            await cache.synced()
            await informer.subscribe(readiness.note)
            yield readiness
        finally:
            following.cancel()
            await asyncio.wait([following])


def is_ready(raw: Mapping[str, Any]) -> bool:
    """Whether the status of a unit is ready for the current generation of its spec."""
    conditions = raw.get("status", {}).get("conditions", ())
    generation = raw["metadata"]["generation"]
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and condition.get("observedGeneration") == generation
        for condition in conditions
    )
