"""Claiming a ready stock unit: one conditional PATCH, and the next candidate if somebody was faster."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import Operation
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Store
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.desired.provenance import Claim, claim_of
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from gpuruntime.kube.forms import metadata_only
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta.codec import encode
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.owners import controller_of
from gpuruntime.service.errors import InsufficientCapacityError
from gpuruntime.service.unit_index import units_of_spec

__all__ = ["StockClaims", "WantedStock", "claim_for", "claim_patch", "no_capacity"]

_LOG = logging.getLogger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def claim_for(operation: Operation, stock: GPUUnit, active: ObjectKey) -> Claim:
    """The claim of an operation on a stock unit, for the capacity of an active unit."""
    owner = controller_of(stock.metadata)
    is_pooled = owner is not None and (owner.group, owner.kind) == (StockPool.KIND.group, StockPool.KIND.kind)
    pool = owner.name if owner is not None and is_pooled else ""
    return Claim(operation.metadata.uid, operation.metadata.name, active, pool)


def claim_patch(stock: GPUUnit, claim: Claim, now: datetime) -> MergePatch:
    """The patch that claims a unit in the state in which it was seen, and takes it out of the hands of its pool."""
    kept = [reference for reference in stock.metadata.owner_references if not reference.controller]
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

    def among(self, units: Store[GPUUnit]) -> tuple[GPUUnit, ...]:
        """The units that fit, ready or not."""
        if not self.name:
            return units_of_spec(units, self.namespace, self.spec_name)
        named = units.get(ObjectKey(self.namespace, self.name))
        return () if named is None or self.spec_name not in {"", named.spec.spec_name} else (named,)


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
        - The oldest ready unit first, then by name. Operations of this process do not run after the same unit.
        - None is claimed only if, at some moment, no ready unit of the spec was to be had: a candidate that merely
          changed is looked at again, live.

    If the process dies after the PATCH, the claim says which Operation it belongs to: whoever takes that over finds it
    with `find`, and uses it.
    """

    def __init__(self, units: Store[GPUUnit], now: Callable[[], datetime] = _utc_now) -> None:
        self._units = units
        self._now = now
        self._wanted: set[str] = set()

    async def claim(
        self, client: Client, operation: Operation, wanted: WantedStock, active: ObjectKey
    ) -> GPUUnit | None:
        """The unit, as it is once it is claimed; None if there is none to be had."""
        passed: set[str] = set()
        changed: list[GPUUnit] = []
        while (candidate := self._next(wanted, passed)) is not None:
            passed.add(candidate.metadata.uid)
            with self._wanting(candidate):
                claimed = await self._try(client, operation, candidate, active)
            if claimed is not None:
                return claimed
            changed.append(candidate)
        for candidate in changed:
            with self._wanting(candidate):
                fresh = await self._read(client, candidate)
                if fresh is None or not is_ready_stock(fresh):
                    continue
                claimed = await self._try(client, operation, fresh, active)
            if claimed is not None:
                return claimed
        return None

    def may_succeed(self, wanted: WantedStock) -> bool:
        """Whether, by the cache, there is a unit to be claimed."""
        return self._next(wanted, set()) is not None

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

    def _next(self, wanted: WantedStock, passed: set[str]) -> GPUUnit | None:
        """The first candidate by the cache as it is now: it may have changed since the last look."""
        candidates = (
            unit
            for unit in wanted.among(self._units)
            if unit.metadata.uid not in passed and unit.metadata.uid not in self._wanted and is_ready_stock(unit)
        )
        return min(
            candidates, key=lambda unit: (unit.metadata.creation_timestamp or "", unit.metadata.name), default=None
        )

    @contextmanager
    def _wanting(self, unit: GPUUnit) -> Iterator[None]:
        self._wanted.add(unit.metadata.uid)
        try:
            yield
        finally:
            self._wanted.discard(unit.metadata.uid)

    async def _try(self, client: Client, operation: Operation, stock: GPUUnit, active: ObjectKey) -> GPUUnit | None:
        meta = stock.metadata
        patch = claim_patch(stock, claim_for(operation, stock, active), self._now())
        try:
            return await client.patch(GPUUnit, meta.name, meta.namespace, patch)
        except (ConflictError, NotFoundError):
            return None
        except (ForbiddenError, InvalidError) as error:
            # A unit that cannot be claimed, by whatever rule of the cluster, must not stand before those that can.
            _LOG.warning("cannot claim a stock unit", extra={"unit": str(stock.key), "error": str(error)})
            return None

    async def _read(self, client: Client, stock: GPUUnit) -> GPUUnit | None:
        try:
            return await client.get(GPUUnit, stock.metadata.name, stock.metadata.namespace)
        except NotFoundError:
            return None
