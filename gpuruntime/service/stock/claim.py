"""Claiming a ready stock unit: one conditional PATCH, and the next candidate if somebody was faster."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import Operation
from gpuruntime.control import Store
from gpuruntime.desired.pool_units import is_pool, is_ready_stock
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
from gpuruntime.service.objects.admission import ensure_allowed
from gpuruntime.service.objects.update import read_or_none
from gpuruntime.service.reads.reader import is_at_least
from gpuruntime.service.reads.unit_index import units_that_took
from gpuruntime.service.stock.claim_metrics import ClaimCounters, ClaimOutcome
from gpuruntime.service.stock.ready_stock import ReadyStock

__all__ = ["StockClaims", "WantedStock", "claim_for", "claim_patch", "no_capacity"]

_LOG = logging.getLogger(__name__)


def claim_for(operation: Operation, stock: GPUUnit, active: ObjectKey) -> Claim:
    """The claim of an operation on a stock unit, for the capacity of an active unit."""
    owner = controller_of(stock.metadata)
    pool = owner.name if owner is not None and is_pool(owner) else ""
    return Claim(operation.metadata.uid, operation.metadata.name, active, pool)


def claim_patch(stock: GPUUnit, claim: Claim, now: datetime) -> MergePatch:
    """The patch that claims a unit in the state in which it was seen, and takes it out of the hands of its pool.

    Owners that are no pools stay.
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
    """What is to be claimed: a unit of a spec, or the one of a name; "" is any."""

    namespace: str
    spec_name: str = ""
    name: str = ""

    def fits(self, unit: GPUUnit) -> bool:
        return self.spec_name in {"", unit.spec.spec_name}


def no_capacity(wanted: WantedStock) -> InsufficientCapacityError:
    """What to say when there is none of what is wanted."""
    what = f"stock unit {wanted.name!r}" if wanted.name else f"a stock unit of spec {wanted.spec_name!r}"
    return InsufficientCapacityError(
        f"expected {what} in namespace {wanted.namespace!r} that is ready and that nobody has claimed, found none; "
        "seed stock, enlarge a pool, or ask for coldStart"
    )


class StockClaims:
    """Claims stock for the operations of this process.

    Guarantees:
        - A unit is claimed by at most one operation: the PATCH fails if the unit changed in any way since it was seen.
        - The oldest ready unit first, then by name. Operations of this process do not run after the same unit, nor
          after one that this process has claimed and the cache does not show so yet.
        - None is claimed only if, at some moment, no ready unit of the spec was to be had: a candidate that merely
          changed is looked at again, live.

    If the process dies after the PATCH, the claim says which Operation it belongs to: whoever takes that over finds it
    with `find`, and uses it.
    """

    def __init__(self, units: Store[GPUUnit], ready: ReadyStock, now: Callable[[], datetime]) -> None:
        self._units = units
        self._ready = ready
        self._now = now
        self._wanted: set[str] = set()
        self._claimed: dict[str, GPUUnit] = {}
        self._attempt_ended = asyncio.Event()
        self.counters = ClaimCounters()

    async def claim(
        self, client: Client, operation: Operation, wanted: WantedStock, active: ObjectKey
    ) -> GPUUnit | None:
        """The unit, as it is once it is claimed; None if there is none to be had."""
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
        passed: set[str] = set()
        changed: list[GPUUnit] = []
        while (candidate := await self._candidate(wanted, passed)) is not None:
            passed.add(candidate.metadata.uid)
            with self._wanting(candidate):
                claimed = await self._try(client, operation, candidate, active)
            if claimed is not None:
                return claimed
            changed.append(candidate)
        for candidate in changed:
            with self._wanting(candidate):
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

    def may_succeed(self, wanted: WantedStock) -> bool:
        """Whether, by the cache, there is a unit to be claimed, or may be for all that is known yet."""
        return not self._ready.is_complete or self._next(wanted, set()) is not None

    async def find(self, client: Client, operation: Operation, stock_namespace: str) -> GPUUnit | None:
        """The unit that this very operation has claimed already, read live."""
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

    async def _candidate(self, wanted: WantedStock, passed: set[str]) -> GPUUnit | None:
        """The next unit to try; None if there is none, and nobody runs after one that he may not get."""
        while (found := self._next(wanted, passed | self._wanted)) is None:
            if self._next(wanted, passed) is None:
                return None
            await self._attempt_ended.wait()
        return found

    def _next(self, wanted: WantedStock, besides: set[str]) -> GPUUnit | None:
        """The first candidate by the cache as it is now: it may have changed since the last look."""
        for uid, unit in tuple(self._claimed.items()):
            known = self._units.version_of(unit.key)
            if known is None or known[0] != uid or is_at_least(known[1], unit.metadata.resource_version):
                del self._claimed[uid]
        # Somebody may have stripped the claim off a unit that was taken over: then it is about to go.
        fit = (unit for unit in self._candidates(wanted, besides | self._claimed.keys()) if wanted.fits(unit))
        return next((unit for unit in fit if not units_that_took(self._units, unit, self._ready.namespaces)), None)

    def _candidates(self, wanted: WantedStock, besides: set[str]) -> Iterable[GPUUnit]:
        if not wanted.name:
            return self._ready.oldest(wanted.namespace, wanted.spec_name, besides)
        named = self._ready.find(ObjectKey(wanted.namespace, wanted.name))
        return () if named is None or named.metadata.uid in besides else (named,)

    @contextmanager
    def _wanting(self, unit: GPUUnit) -> Iterator[None]:
        self._wanted.add(unit.metadata.uid)
        try:
            yield
        finally:
            self._wanted.discard(unit.metadata.uid)
            # Those who wait hold the old event.
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
            ensure_allowed(error)
            # A unit that cannot be claimed, by whatever rule of the cluster, must not stand before those that can.
            _LOG.warning("cannot claim a stock unit", extra={"unit": str(stock.key), "error": str(error)})
            return None
        self._claimed[meta.uid] = claimed
        return claimed
