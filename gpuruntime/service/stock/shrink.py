"""Giving up so many stock units of a spec, whichever: all of what is asked for, or nothing.

::

    claim one after the other ── too few, or refused? ──> release them: nothing came of it
              │ all are claimed
    note that in the Operation ──> delete them

Where the process dies, and what happens then: the claims tell whoever takes the Operation over which units are its own.
Before the note, it goes on claiming; after the note, it deletes what is left. Claims of an Operation that is gone are
released by the reaper.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.operation import OperationResult
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.desired.provenance import Claim, claim_of
from gpuruntime.kube import Client, ConflictError, NotFoundError
from gpuruntime.meta import Struct, controller_of
from gpuruntime.service.errors import InsufficientCapacityError
from gpuruntime.service.objects.admission import REFUSALS, refused
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.stock.claim import claim_patch
from gpuruntime.service.stock.release import settle_claim
from gpuruntime.service.stock.seed import is_being_seeded

__all__ = ["REDUCE_STOCK", "ReduceStock", "StockReduction", "dispensable"]

REDUCE_STOCK: Final = "reduce_stock"
_ROUNDS: Final = 5


@frozen
class ReduceStock(Struct):
    """Delete so many stock units of a spec."""

    spec_name: str
    number: int
    namespace: str


def dispensable(units: Iterable[GPUUnit]) -> list[GPUUnit]:
    """The units that can go, those first that nobody misses: what is not ready, then the youngest.

    Units of a pool are not among them: the pool would make others.
    """
    free = [
        unit
        for unit in units
        if claim_of(unit.metadata) is None
        and unit.metadata.deletion_timestamp is None
        and controller_of(unit.metadata) is None
    ]
    free.sort(key=lambda unit: (unit.metadata.creation_timestamp or "", unit.metadata.name), reverse=True)
    return sorted(free, key=is_ready_stock)


@frozen
class StockReduction:
    """The work of a reduce_stock operation.

    Caveats:
        Two replicas that run after the same units at the same time may both be told that there are too few.
    """

    type: ClassVar = REDUCE_STOCK
    _turn: asyncio.Lock = field(factory=asyncio.Lock, init=False, repr=False)

    async def run(self, hold: OperationLease) -> Outcome:
        """Claim the units, so that nobody else gets them, and delete them once there are enough.

        Raises:
            InsufficientCapacityError: there are not as many; nothing was deleted.
            RefusedError: the API server deletes no such unit.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = hold.request(ReduceStock)
        if hold.operation.status.progress is None:
            async with self._turn:
                mine = await self._decide(hold, request)
        else:
            mine = await _claimed(hold, request)
        for done, unit in enumerate(mine, request.number - len(mine) + 1):
            await _delete(hold.client, unit)
            await hold.report(done, request.number)
        return Outcome(OperationResult(GPUUnit.KIND.kind, request.spec_name, request.namespace))

    async def _decide(self, hold: OperationLease, request: ReduceStock) -> list[GPUUnit]:
        """Claim as many units as are asked for, and note that they are to go; or release them."""
        try:
            mine = await self._claim(hold, request)
            # Why none may be deleted is found out before the first one is.
            await _delete(hold.client, mine[0], rehearsal=True)
        except REFUSALS as error:
            await _release(hold.client, await _claimed(hold, request))
            raise refused(f"the deletion of stock units of spec {request.spec_name!r}", error) from error
        await hold.report(0, request.number, at_once=True)
        return mine

    async def _claim(self, hold: OperationLease, request: ReduceStock) -> list[GPUUnit]:
        mine: list[GPUUnit] = []
        for _ in range(_ROUNDS):
            listed = await _listed(hold.client, request)
            mine = [unit for unit in listed if _is_claimed_by(unit, hold)]
            contested = False
            jobs: dict[str | None, bool] = {}
            for unit in dispensable(listed):
                if len(mine) >= request.number:
                    break
                job = unit.metadata.annotations.get(OPERATION_ID)
                if job not in jobs:
                    jobs[job] = await is_being_seeded(hold.client, unit, hold.operation.metadata.namespace)
                if jobs[job]:
                    continue
                # A unit that changed meanwhile may still be free: it is looked at again in the next round.
                try:
                    mine.append(await _claim_one(hold, unit))
                except (ConflictError, NotFoundError):
                    contested = True
            if len(mine) >= request.number:
                return mine
            if not contested:
                break
        await _release(hold.client, mine)
        raise InsufficientCapacityError(
            f"spec {request.spec_name!r} has {len(mine)} stocks that nobody uses, no pool keeps and no job is still"
            f" making, expected {request.number} to delete; nothing was deleted"
        )


async def _listed(client: Client, request: ReduceStock) -> list[GPUUnit]:
    found = (await client.list(GPUUnit, request.namespace)).items
    return [unit for unit in found if unit.spec.spec_name == request.spec_name]


async def _claimed(hold: OperationLease, request: ReduceStock) -> list[GPUUnit]:
    return [unit for unit in await _listed(hold.client, request) if _is_claimed_by(unit, hold)]


def _is_claimed_by(unit: GPUUnit, hold: OperationLease) -> bool:
    claim = claim_of(unit.metadata)
    return claim is not None and claim.id == hold.operation.metadata.uid


async def _claim_one(hold: OperationLease, unit: GPUUnit) -> GPUUnit:
    meta = hold.operation.metadata
    patch = claim_patch(unit, Claim(meta.uid, meta.name, None), hold.now())
    return await hold.client.patch(GPUUnit, unit.metadata.name, unit.metadata.namespace, patch)


async def _release(client: Client, units: Sequence[GPUUnit]) -> None:
    for unit in units:
        await settle_claim(client, unit, None)


async def _delete(client: Client, unit: GPUUnit, *, rehearsal: bool = False) -> None:
    meta = unit.metadata
    # Somebody else may have deleted it, and another one may have its name.
    with suppress(NotFoundError, ConflictError):
        await client.delete(GPUUnit, meta.name, meta.namespace, uid=meta.uid, dry_run=rehearsal or None)
