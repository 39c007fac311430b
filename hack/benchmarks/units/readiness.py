"""Watching how many units are ready, with eyes of the bench's own."""

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
    """Knows which units are ready now, by their own account."""

    def __init__(self, units: int, progress: Progress) -> None:
        self._units = units
        self._progress = progress
        self._ready: set[ObjectKey] = set()
        self._all = asyncio.Event()

    async def all_ready(self) -> None:
        """Returns as soon as all units have been ready at one time."""
        await self._all.wait()

    def note(self, change: Change[bool]) -> None:
        (self._ready.add if change.after else self._ready.discard)(change.key)
        self._progress.advance("ready units", len(self._ready), self._units)
        if len(self._ready) == self._units:
            self._all.set()


@asynccontextmanager
async def watching_readiness(kubeconfig: Path, units: int, progress: Progress) -> AsyncIterator[Readiness]:
    """Watch for the length of the block, for so many units to be ready."""
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
    """Whether a unit as it is on the wire says that it is ready, and that this is about its newest spec."""
    conditions = raw.get("status", {}).get("conditions", ())
    generation = raw["metadata"]["generation"]
    return any(
        condition["type"] == "Ready"
        and condition["status"] == "True"
        and condition.get("observedGeneration") == generation
        for condition in conditions
    )
