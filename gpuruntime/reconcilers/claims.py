"""The claim reaper: ends claims that no process will end.

A claim on a stock unit belongs to an Operation, and while that is in progress the claim is its business. When the
Operation has ended or is gone, the claim is finished if its active unit names the stock unit, and void otherwise. An
Operation may have been deleted while a process still works on it: such a process stops when its lease expires, so the
reaper waits for one lease duration, because the cache may lag.

A stock unit that an active unit names has been taken over, also if its claim was stripped off, or if the active unit
was created manually: then it is deleted. A claim comes first: a stock unit that is claimed for one unit is not taken
over by another one that names it.
"""

from collections.abc import Callable, Iterator
from typing import Final

from attrs import field, frozen

from gpuruntime.aio import seconds_since_boot
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import (
    Change,
    Context,
    Controller,
    ControllerOptions,
    Manager,
    Recorder,
    Result,
    Store,
    allow,
    allow_events,
)
from gpuruntime.desired.provenance import Claim, claim_of, provenance_of
from gpuruntime.kube import Client, InvalidError, NotFoundError
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.child_sync_errors import REFUSED_SECONDS
from gpuruntime.service.operations.record import LeaseTiming, has_ended
from gpuruntime.service.reads.informers import units_claimed_by, units_that_took, watch_operations, watch_units
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.stock.release import consume, is_named_by, settle_claim

__all__ = ["ClaimOptions", "ClaimReaper", "install_claims"]

_ACTION: Final = "Reap"


@frozen
class ClaimOptions:
    """How claims are reaped.

    Args:
        namespaces: the namespaces of the product.
        timing: the lease of an Operation.
        concurrency: how many claims are reaped at a time.
        refused_seconds: after how many seconds the end of a claim that the server refused is retried.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    timing: LeaseTiming = field(factory=LeaseTiming)
    concurrency: int = 4
    refused_seconds: float = REFUSED_SECONDS


def install_claims(manager: Manager, options: ClaimOptions | None = None) -> Controller[ObjectKey]:
    """Add the claim reaper to a manager. Before it runs."""
    chosen = options or ClaimOptions()
    units = watch_units(manager.cache, chosen.namespaces.units)
    operations = watch_operations(manager.cache, chosen.namespaces.system)
    reaper = ClaimReaper(units.store, operations.store, manager.client, manager.recorder, chosen)
    stock = tuple(sorted(chosen.namespaces.stock))

    def claimed_by(operation: Operation) -> Iterator[ObjectKey]:
        yield from (unit.key for unit in units_claimed_by(units.store, operation.metadata.uid))

    return (
        manager.controller(name="claim", options=ControllerOptions(concurrency=chosen.concurrency))
        .watches(units, _concerned, when=_ties_changed)
        .watches(operations, claimed_by)
        .permissions(
            allow(GPUUnit, "get"),
            allow(GPUUnit, "patch", "delete", namespaces=stock),
            allow(Operation, "get", namespaces=[chosen.namespaces.system]),
            allow(StockPool, "get", namespaces=stock),
            allow_events(GPUUnit),
        )
        .reconcile_keys(reaper.reconcile)
    )


def _concerned(unit: GPUUnit) -> Iterator[ObjectKey]:
    """The unit, and the stock unit that it took over."""
    source = provenance_of(unit.metadata)
    yield unit.key
    if source is not None:
        yield source.stock


def _ties_changed(change: Change[GPUUnit]) -> bool:
    """A predicate: the claim or the provenance of a unit changed."""
    before, after = (
        None if state is None else (claim_of(state.metadata), provenance_of(state.metadata))
        for state in (change.before, change.after)
    )
    return (before or (None, None)) != (after or (None, None))


@frozen
class ClaimReaper:
    """Ends the claim on one stock unit if no process will.

    Guarantees:
        A stock unit that an active unit names is never released, and is deleted, claimed or not. One that none names is
        released only when no process can be about to create that active unit. Both are read live before anything is
        written. What the server refuses is recorded as an event, and retried after a while.
    """

    units: Store[GPUUnit]
    operations: Store[Operation]
    client: Client
    recorder: Recorder
    options: ClaimOptions
    clock: Callable[[], float] = seconds_since_boot
    _since: dict[ObjectKey, tuple[tuple[str, bool], float]] = field(factory=dict)

    async def reconcile(self, key: ObjectKey, _ctx: Context) -> Result:
        """Reconcile one stock unit."""
        stock = self.units.get(key)
        if stock is None or not self.options.namespaces.is_stock(key.namespace):
            self._since.pop(key, None)
            return Result.done()
        try:
            return await self._reap(stock)
        except InvalidError as error:
            self.recorder.record(stock, "Warning", "ClaimEndRefused", _ACTION, error.message or str(error))
            return Result.after(self.options.refused_seconds)

    async def _reap(self, stock: GPUUnit) -> Result:
        key, claim = stock.key, claim_of(stock.metadata)
        if claim is None:
            return await self._recall(stock)
        known = self.operations.get(ObjectKey(self.options.namespaces.system, claim.operation))
        is_there = known is not None and known.metadata.uid == claim.id
        left = self._left(key, (claim.id, is_there))
        if left > 0 and not (known is not None and is_there and has_ended(known)):
            # Too early: the cache may lag, and a process may have a lease of an Operation that was deleted.
            return Result.after(left)
        return await self._decide(stock, claim)

    async def _recall(self, stock: GPUUnit) -> Result:
        """Delete a unit that was taken over without a claim, so that its capacity is not handed out again."""
        takers = units_that_took(self.units, stock, self.options.namespaces)
        if not takers:
            self._since.pop(stock.key, None)
            return Result.done()
        left = self._left(stock.key, ("", False))
        if left > 0:
            # Too early: the active unit may be gone, and its stock given back, before the cache shows it.
            return Result.after(left)
        taker = await read_or_none(self.client, GPUUnit, takers[0].key)
        if taker is None or taker.metadata.deletion_timestamp is not None or not is_named_by(stock, taker):
            return Result.after(self.options.timing.lease)
        await consume(self.client, stock)
        self._since.pop(stock.key, None)
        self.recorder.record(stock, "Warning", "ClaimRecalled", _ACTION, f"taken over by {taker.key}, but not claimed")
        return Result.done()

    async def _decide(self, stock: GPUUnit, claim: Claim) -> Result:
        operation = await self._operation(claim)
        active = await self._active(claim)
        if operation is not None and not has_ended(operation) and not is_named_by(stock, active):
            return Result.after(self.options.timing.lease)
        await settle_claim(self.client, stock, active)
        self._since.pop(stock.key, None)
        if is_named_by(stock, active):
            self.recorder.record(stock, "Normal", "ClaimFinished", _ACTION, f"taken over by {claim.claimed_for}")
        else:
            why = "not given up" if claim.claimed_for is None else f"not taken over by {claim.claimed_for}"
            self.recorder.record(stock, "Normal", "ClaimReleased", _ACTION, why)
        return Result.done()

    def _left(self, key: ObjectKey, sight: tuple[str, bool]) -> float:
        """Seconds for which a claim, with its Operation or without, must still look the same by the local clock."""
        known = self._since.get(key)
        if known is None or known[0] != sight:
            known = self._since[key] = (sight, self.clock())
        return known[1] + self.options.timing.lease - self.clock()

    async def _operation(self, claim: Claim) -> Operation | None:
        """The Operation of the claim, live; None if it is gone, also if another one has its name."""
        if not claim.operation:
            return None
        try:
            found = await self.client.get(Operation, claim.operation, self.options.namespaces.system)
        except NotFoundError:
            return None
        return found if found.metadata.uid == claim.id else None

    async def _active(self, claim: Claim) -> GPUUnit | None:
        """The active unit of the claim, live; None outside of the namespaces of units."""
        if claim.claimed_for is None or claim.claimed_for.namespace not in self.options.namespaces.units:
            return None
        return await read_or_none(self.client, GPUUnit, claim.claimed_for)
