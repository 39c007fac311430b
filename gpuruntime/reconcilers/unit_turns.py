"""Turns on a unit: in one process, either its reconciler writes its Deployment, or the lock reaper ends its locks.

Both decide first and write then. Without turns, the reaper could release a lock between the moment in which the
reconciler sees it and the moment in which it writes a Deployment that mounts the storage. Another process writes
nothing meanwhile, because one process leads.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import field, frozen

from gpuruntime.meta import ObjectKey

__all__ = ["UnitTurns"]


@frozen
class UnitTurns:
    """Lets one task at a time work on a unit. Tasks get their turn in the order in which they asked for it."""

    _locks: dict[ObjectKey, tuple[asyncio.Lock, int]] = field(factory=dict)

    @asynccontextmanager
    async def of(self, unit: ObjectKey) -> AsyncIterator[None]:
        """The turn on a unit, which need not exist, for the length of the block."""
        lock, users = self._locks.get(unit) or (asyncio.Lock(), 0)
        self._locks[unit] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            users = self._locks[unit][1] - 1
            if users:
                self._locks[unit] = (lock, users)
            else:
                del self._locks[unit]
