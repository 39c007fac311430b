"""Ready stock in the order in which it is handed out, kept as units change.

To look through all of it for each claim would hold everybody up where there are thousands.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.control import Change, Informer, QuarantinedError
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.meta import ObjectKey

__all__ = ["ReadyStock"]

# When it was made, its name, its UID.
_Entry = tuple[str, str, str]


class ReadyStock:
    """What can be claimed of each flavour, the oldest first, then by name.

    Caveats:
        It is known for the length of `following` only.
    """

    def __init__(self, units: Informer[GPUUnit], namespaces: Namespaces) -> None:
        self.is_complete = False
        self._informer = units
        self.namespaces = namespaces
        self._queues: dict[tuple[str, str], list[_Entry]] = {}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the informer for the length of the block, which begins when all is known."""
        await self._informer.subscribe(self._take)
        try:
            await self._informer.synced()
            self.is_complete = True
            yield
        finally:
            self.is_complete = False
            self._informer.unsubscribe(self._take)
            self._queues.clear()

    def oldest(self, namespace: str, spec_name: str, besides: Collection[str]) -> Iterator[GPUUnit]:
        """The units of a flavour but for those with these UIDs, as the cache has them now."""
        for _, name, uid in self._queues.get((namespace, spec_name), ()):
            if uid in besides:
                continue
            unit = self.find(ObjectKey(namespace, name))
            # The store may be ahead of what we were told.
            if unit is not None and unit.metadata.uid == uid:
                yield unit

    def find(self, key: ObjectKey) -> GPUUnit | None:
        """The unit of this name, if it can be claimed."""
        try:
            unit = self._informer.store.get(key)
        except QuarantinedError:
            return None
        return unit if unit is not None and is_ready_stock(unit) else None

    def _take(self, change: Change[GPUUnit]) -> None:
        if not self.namespaces.is_stock(change.key.namespace):
            return
        before, after = _place(change.before), _place(change.after)
        if before == after:
            return
        if before is not None:
            queue = self._queues.get(before[0], [])
            place = bisect_left(queue, before[1])
            if queue[place : place + 1] == [before[1]]:
                del queue[place]
        if after is not None:
            queue = self._queues.setdefault(after[0], [])
            place = bisect_left(queue, after[1])
            if queue[place : place + 1] != [after[1]]:
                queue.insert(place, after[1])


def _place(unit: GPUUnit | None) -> tuple[tuple[str, str], _Entry] | None:
    """The queue that a unit belongs to, and as what it is in it; None if it cannot be claimed."""
    if unit is None or not is_ready_stock(unit):
        return None
    meta = unit.metadata
    return (meta.namespace, unit.spec.spec_name), (meta.creation_timestamp or "", meta.name, meta.uid)
