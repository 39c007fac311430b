"""Claiming a ready stock unit: the order of candidates, one conditional PATCH, and the next candidate on a conflict."""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation
from gpuruntime.control import Change, Informer, QuarantinedError, Store
from gpuruntime.desired.pools.units import is_pool, is_ready_stock
from gpuruntime.desired.provenance import Claim, claim_of
from gpuruntime.kube import (
    Client,
    ConflictError,
    ForbiddenError,
    InvalidError,
    MergePatch,
    NotFoundError,
    metadata_only,
)
from gpuruntime.meta import ObjectKey, controller_of, encode
from gpuruntime.service.errors import InsufficientCapacityError
from gpuruntime.service.objects.admission import raise_if_rbac_denial
from gpuruntime.service.reads.informers import units_that_took
from gpuruntime.service.reads.reader import is_at_least, read_or_none
from gpuruntime.service.stock.metrics import ClaimCounters, ClaimOutcome

__all__ = ["ReadyStock", "StockClaims", "WantedStock", "claim_for", "claim_patch", "no_capacity"]

_LOG = logging.getLogger(__name__)
# Creation timestamp, name, UID: the order in which stock units are claimed.
_Entry = tuple[str, str, str]


def claim_for(operation: Operation, stock: GPUUnit, active: ObjectKey) -> Claim:
    """The claim of an Operation on a stock unit, for an active unit."""
    owner = controller_of(stock.metadata)
    pool = owner.name if owner is not None and is_pool(owner) else ""
    return Claim(operation.metadata.uid, operation.metadata.name, active, pool)


def claim_patch(stock: GPUUnit, claim: Claim, now: datetime) -> MergePatch:
    """The patch that claims a unit in the version that was read, and removes its pool's owner reference.

    Other owner references stay.
    """
    references = stock.metadata.owner_references
    kept = [reference for reference in references if not (reference.controller and is_pool(reference))]
    metadata = {
        "annotations": claim.annotations(now),
        "ownerReferences": [encode(reference) for reference in kept] or None,
    }
    return MergePatch({"metadata": metadata}).locked(stock.metadata.resource_version)


@frozen
class WantedStock:
    """What to claim: a unit of a spec, or the unit of a name; "" is any."""

    namespace: str
    spec_name: str = ""
    name: str = ""

    def fits(self, unit: GPUUnit) -> bool:
        return self.spec_name in {"", unit.spec.spec_name}


def no_capacity(wanted: WantedStock) -> InsufficientCapacityError:
    """The error of a claim that found no unit."""
    what = f"stock unit {wanted.name!r}" if wanted.name else f"a stock unit of spec {wanted.spec_name!r}"
    return InsufficientCapacityError(
        f"expected {what} in namespace {wanted.namespace!r} that is ready and unclaimed, found none; "
        "seed stock, enlarge a pool, or use coldStart"
    )


class ReadyStock:
    """Stock units that can be claimed, by namespace and spec, the oldest first, then by name.

    Maintained as units change: a claim does not have to sort thousands of them.

    Caveats:
        Empty outside of `subscribed`.
    """

    def __init__(self, units: Informer[GPUUnit], namespaces: Namespaces) -> None:
        self.is_complete = False
        self._informer = units
        self.namespaces = namespaces
        self._queues: dict[tuple[str, str], list[_Entry]] = {}

    @asynccontextmanager
    async def subscribed(self) -> AsyncIterator[None]:
        """Follow the informer for the length of the block, which starts when the cache is synced."""
        await self._informer.subscribe(self._on_change)
        try:
            await self._informer.synced()
            self.is_complete = True
            yield
        finally:
            self.is_complete = False
            self._informer.unsubscribe(self._on_change)
            self._queues.clear()

    def oldest(self, namespace: str, spec_name: str, excluding: Collection[str]) -> Iterator[GPUUnit]:
        """The units of a spec as the cache shows them now, except those with these UIDs."""
        for _, name, uid in self._queues.get((namespace, spec_name), ()):
            if uid in excluding:
                continue
            unit = self.find(ObjectKey(namespace, name))
            # The store may be ahead of the changes that were delivered here.
            if unit is not None and unit.metadata.uid == uid:
                yield unit

    def find(self, key: ObjectKey) -> GPUUnit | None:
        """The unit of this name, if it can be claimed."""
        try:
            unit = self._informer.store.get(key)
        except QuarantinedError:
            return None
        return unit if unit is not None and is_ready_stock(unit) else None

    def _on_change(self, change: Change[GPUUnit]) -> None:
        if not self.namespaces.is_stock(change.key.namespace):
            return
        before, after = _entry(change.before), _entry(change.after)
        if before == after:
            return
        if before is not None:
            queue = self._queues.get(before[0], [])
            index = bisect_left(queue, before[1])
            if queue[index : index + 1] == [before[1]]:
                del queue[index]
        if after is not None:
            queue = self._queues.setdefault(after[0], [])
            index = bisect_left(queue, after[1])
            if queue[index : index + 1] != [after[1]]:
                queue.insert(index, after[1])


def _entry(unit: GPUUnit | None) -> tuple[tuple[str, str], _Entry] | None:
    """The queue of a unit, and its entry there; None if it cannot be claimed."""
    if unit is None or not is_ready_stock(unit):
        return None
    meta = unit.metadata
    return (meta.namespace, unit.spec.spec_name), (meta.creation_timestamp or "", meta.name, meta.uid)


class StockClaims:
    """Claims stock for the Operations of this process.

    Guarantees:
        - A unit is claimed by at most one Operation: the PATCH fails if the unit changed in any way since it was read.
        - The oldest ready unit first, then by name, see `ReadyStock`. Operations of this process never compete for one
          unit, nor try a unit that this process has claimed before the cache shows the claim.
        - A claim finds nothing only if, at some moment, no ready unit of the spec was available: a candidate that
          merely changed is read again, live.

    If the process dies after the PATCH, the claim names its Operation: the replica that takes the Operation over finds
    the unit with `find`, and uses it.
    """

    def __init__(self, units: Store[GPUUnit], ready: ReadyStock, now: Callable[[], datetime]) -> None:
        self._units = units
        self._ready = ready
        self._now = now
        self._attempted: set[str] = set()
        self._claimed: dict[str, GPUUnit] = {}
        self._attempt_ended = asyncio.Event()
        self.counters = ClaimCounters()

    async def claim(
        self, client: Client, operation: Operation, wanted: WantedStock, active: ObjectKey
    ) -> GPUUnit | None:
        """The claimed unit; None if none is available."""
        clock = asyncio.get_running_loop().time
        began = clock()
        outcome: ClaimOutcome = "error"
        try:
            claimed = await self._claim(client, operation, wanted, active)
            outcome = "insufficient" if claimed is None else "claimed"
        finally:
            self.counters.ended(outcome, clock() - began)
        return claimed

    async def _claim(
        self, client: Client, operation: Operation, wanted: WantedStock, active: ObjectKey
    ) -> GPUUnit | None:
        tried: set[str] = set()
        changed: list[GPUUnit] = []
        while (candidate := await self._candidate(wanted, tried)) is not None:
            tried.add(candidate.metadata.uid)
            with self._attempting(candidate):
                claimed = await self._try(client, operation, candidate, active)
            if claimed is not None:
                return claimed
            changed.append(candidate)
        for candidate in changed:
            with self._attempting(candidate):
                fresh = await read_or_none(client, GPUUnit, candidate.key)
                if (
                    fresh is None
                    or not is_ready_stock(fresh)
                    or units_that_took(self._units, fresh, self._ready.namespaces)
                ):
                    continue
                claimed = await self._try(client, operation, fresh, active)
            if claimed is not None:
                return claimed
        return None

    def may_find(self, wanted: WantedStock) -> bool:
        """Whether the cache shows a unit to claim, or is not complete yet."""
        return not self._ready.is_complete or self._next(wanted, set()) is not None

    async def find(self, client: Client, operation: Operation, stock_namespace: str) -> GPUUnit | None:
        """Live read of the unit that an earlier attempt of this Operation has claimed."""
        listed = await client.list(metadata_only(GPUUnit.KIND), stock_namespace)
        for item in listed.items:
            claim = claim_of(item.metadata)
            if claim is None or claim.id != operation.metadata.uid or item.metadata.deletion_timestamp is not None:
                continue
            try:
                return await client.get(GPUUnit, item.metadata.name, stock_namespace)
            except NotFoundError:
                continue
        return None

    async def _candidate(self, wanted: WantedStock, tried: set[str]) -> GPUUnit | None:
        """The next unit to try, once no other Operation of this process tries it; None if there is none left."""
        while (found := self._next(wanted, tried | self._attempted)) is None:
            if self._next(wanted, tried) is None:
                return None
            await self._attempt_ended.wait()
        return found

    def _next(self, wanted: WantedStock, excluding: set[str]) -> GPUUnit | None:
        """The first candidate by the cache as it is now: it may have changed since the last call."""
        for uid, unit in tuple(self._claimed.items()):
            known = self._units.version_of(unit.key)
            if known is None or known[0] != uid or is_at_least(known[1], unit.metadata.resource_version):
                del self._claimed[uid]
        # A unit that an active unit took over is about to be deleted, also if its claim was removed by a third party.
        fit = (unit for unit in self._candidates(wanted, excluding | self._claimed.keys()) if wanted.fits(unit))
        return next((unit for unit in fit if not units_that_took(self._units, unit, self._ready.namespaces)), None)

    def _candidates(self, wanted: WantedStock, excluding: set[str]) -> Iterable[GPUUnit]:
        if not wanted.name:
            return self._ready.oldest(wanted.namespace, wanted.spec_name, excluding)
        named = self._ready.find(ObjectKey(wanted.namespace, wanted.name))
        return () if named is None or named.metadata.uid in excluding else (named,)

    @contextmanager
    def _attempting(self, unit: GPUUnit) -> Iterator[None]:
        self._attempted.add(unit.metadata.uid)
        try:
            yield
        finally:
            self._attempted.discard(unit.metadata.uid)
            # Waiters hold a reference to the old event.
            self._attempt_ended.set()
            self._attempt_ended = asyncio.Event()

    async def _try(self, client: Client, operation: Operation, stock: GPUUnit, active: ObjectKey) -> GPUUnit | None:
        meta = stock.metadata
        patch = claim_patch(stock, claim_for(operation, stock, active), self._now())
        try:
            claimed = await client.patch(GPUUnit, meta.name, meta.namespace, patch)
        except (ConflictError, NotFoundError):
            self.counters.conflicts += 1
            return None
        except (ForbiddenError, InvalidError) as error:
            raise_if_rbac_denial(error)
            # A unit that an admission policy protects must not block the units behind it.
            _LOG.warning("stock unit cannot be claimed", extra={"unit": str(stock.key), "error": str(error)})
            return None
        self._claimed[meta.uid] = claimed
        return claimed
