"""The reaper: ends claims that nobody else will end.

A claim on a stock unit belongs to an Operation, and as long as that is under way, the claim is its business. When the
Operation has ended or is gone, the claim is finished if the active unit that it is for names the stock unit, and void
otherwise. An Operation that is gone may have been deleted under the hands of a process that still works on it: such a
process stops when its hold runs out, so the reaper waits for as long as a hold lasts before it believes its eyes.

A stock unit that an active unit names has been taken over, also when somebody stripped the claim off it, or when the
active unit was made by hand: then it goes. A claim comes first: what is claimed for one unit is not had by another one
that names it.
"""

from collections.abc import Callable, Iterator
from typing import Final

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import Operation
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import (
    Change,
    Controller,
    ControllerOptions,
    Manager,
    Recorder,
    Result,
    RunInfo,
    Store,
    Watch,
    allow,
    allow_events,
    enqueue_mapped,
)
from gpuruntime.control.leadership.fence import seconds_since_boot
from gpuruntime.desired.provenance import Claim, claim_of, provenance_of
from gpuruntime.kube import Client, InvalidError, NotFoundError
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.unit_hindrances import REFUSED_SECONDS
from gpuruntime.service.objects.update import read_or_none
from gpuruntime.service.operations.record import LeaseTiming, has_ended
from gpuruntime.service.reads.unit_index import units_claimed_by, units_that_took, watch_units
from gpuruntime.service.stock.release import consume, is_named_by, settle_claim
from gpuruntime.service.wiring import watch_operations

__all__ = ["ClaimOptions", "ClaimReaper", "install_claims"]

_ACTION: Final = "Reap"


@frozen
class ClaimOptions:
    """The namespaces of the product, the timing of the lease of an Operation, the maximum concurrent reconciles, and
    the seconds until the rejected end of a claim is retried.
    """

    namespaces: Namespaces = field(factory=Namespaces)
    timing: LeaseTiming = field(factory=LeaseTiming)
    concurrency: int = 4
    refused_seconds: float = REFUSED_SECONDS


def install_claims(manager: Manager, options: ClaimOptions | None = None) -> Controller[ObjectKey]:
    """Have a manager reap claims. Before it runs."""
    chosen = options or ClaimOptions()
    units = watch_units(manager.cache, chosen.namespaces.units)
    operations = watch_operations(manager, chosen.namespaces.system)
    reaper = ClaimReaper(units.store, operations.store, manager.client, manager.recorder, chosen)
    stock = tuple(sorted(chosen.namespaces.stock))
    manager.declare(
        allow(GPUUnit, "get"),
        allow(GPUUnit, "patch", "delete", namespaces=stock),
        allow(Operation, "get", namespaces=[chosen.namespaces.system]),
        allow(StockPool, "get", namespaces=stock),
        allow_events(GPUUnit),
    )

    def claimed_by(operation: Operation) -> Iterator[ObjectKey]:
        yield from (unit.key for unit in units_claimed_by(units.store, operation.metadata.uid))

    return manager.add_controller(
        "claim",
        reaper,
        [
            Watch(units, enqueue_mapped(_concerned), [_ties_changed]),
            Watch(operations, enqueue_mapped(claimed_by)),
        ],
        ControllerOptions(concurrency=chosen.concurrency),
    )


def _concerned(unit: GPUUnit) -> Iterator[ObjectKey]:
    """The unit itself, and the stock unit that it took over."""
    source = provenance_of(unit.metadata)
    yield unit.key
    if source is not None:
        yield source.stock


def _ties_changed(change: Change[GPUUnit]) -> bool:
    """Whether a unit is claimed, or names a stock unit, otherwise than before."""
    before, after = (
        None if state is None else (claim_of(state.metadata), provenance_of(state.metadata))
        for state in (change.before, change.after)
    )
    return (before or (None, None)) != (after or (None, None))


@frozen
class ClaimReaper:
    """Ends the claim on one stock unit, if nobody else will.

    Guarantees:
        A stock unit that an active unit names is never released, and goes, claimed or not. One that none names is
        released only when no process can be about to create that active unit any more. Both are looked up live before
        anything is written. What a rule of the cluster refuses is told by an event, and tried again after a while.
    """

    units: Store[GPUUnit]
    operations: Store[Operation]
    client: Client
    recorder: Recorder
    options: ClaimOptions
    clock: Callable[[], float] = seconds_since_boot
    _since: dict[ObjectKey, tuple[tuple[str, bool], float]] = field(factory=dict)

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
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
            # Too early: the cache may lag behind, and a process may have a hold on an Operation that was deleted.
            return Result.after(left)
        return await self._decide(stock, claim)

    async def _recall(self, stock: GPUUnit) -> Result:
        """Delete a unit that is not claimed and was taken over all the same, so that nobody gets its capacity again."""
        takers = units_that_took(self.units, stock, self.options.namespaces)
        if not takers:
            self._since.pop(stock.key, None)
            return Result.done()
        left = self._left(stock.key, ("", False))
        if left > 0:
            # Too early: the active unit may be gone, and its stock given back, before the cache tells.
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
        """For how many seconds more a claim, with its Operation or without, is to look the same by the local clock."""
        known = self._since.get(key)
        if known is None or known[0] != sight:
            known = self._since[key] = (sight, self.clock())
        return known[1] + self.options.timing.lease - self.clock()

    async def _operation(self, claim: Claim) -> Operation | None:
        """The Operation of the claim, live; None if it is gone, though another may have its name."""
        if not claim.operation:
            return None
        try:
            found = await self.client.get(Operation, claim.operation, self.options.namespaces.system)
        except NotFoundError:
            return None
        return found if found.metadata.uid == claim.id else None

    async def _active(self, claim: Claim) -> GPUUnit | None:
        """The active unit that the claim is for, live. None is where no units are looked for."""
        if claim.claimed_for is None or claim.claimed_for.namespace not in self.options.namespaces.units:
            return None
        return await read_or_none(self.client, GPUUnit, claim.claimed_for)
