"""Reducing stock: deletes a number of stock units of a spec, all of them or none.

::

    claim one after the other ── too few, or refused? ──> release them: nothing is changed
              │ all are claimed
    store progress 0 ──> delete them

If the process dies, the replica that takes the Operation over finds its units by their claims. Without a stored
progress it continues to claim; with one it deletes the remaining units. Claims of an Operation that is gone are
released by the claim reconciler.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import ClassVar

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.operation import REDUCE_STOCK, OperationResult
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.provenance import Claim, claim_of
from gpuruntime.kube import Client, ConflictError, NotFoundError
from gpuruntime.meta import Struct, controller_of
from gpuruntime.service.errors import InsufficientCapacityError
from gpuruntime.service.objects.admission import REFUSALS, refusal
from gpuruntime.service.objects.conflicts import ATTEMPTS
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.stock.claim import claim_patch
from gpuruntime.service.stock.release import settle_claim
from gpuruntime.service.stock.seed import is_being_seeded

__all__ = ["ReduceStock", "ReduceStockHandler", "dispensable"]


@frozen
class ReduceStock(Struct):
    """Delete a number of stock units of a spec."""

    spec_name: str
    number: int
    namespace: str


def dispensable(units: Iterable[GPUUnit]) -> list[GPUUnit]:
    """The units that may be deleted, in the order of deletion: those that are not ready, then the newest.

    Units of a pool are not among them: the pool would create others.
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
class ReduceStockHandler:
    """Executes reduce_stock operations.

    Caveats:
        Two replicas that claim the same units at the same time may both report too few.
    """

    type: ClassVar = REDUCE_STOCK
    _deciding: asyncio.Lock = field(factory=asyncio.Lock, init=False, repr=False)

    async def run(self, lease: OperationLease) -> Outcome:
        """Claim the units, so that no other request gets them, and delete them once there are enough.

        Raises:
            InsufficientCapacityError: there are too few; nothing was deleted.
            RefusedError: the API server rejected the deletion.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        request = lease.request(ReduceStock)
        if lease.operation.status.progress is None:
            async with self._deciding:
                mine = await self._decide(lease, request)
        else:
            mine = await _claimed(lease, request)
        for done, unit in enumerate(mine, request.number - len(mine) + 1):
            await _delete(lease.client, unit)
            await lease.report_progress(done, request.number)
        return Outcome(OperationResult(GPUUnit.KIND.kind, request.spec_name, request.namespace))

    async def _decide(self, lease: OperationLease, request: ReduceStock) -> list[GPUUnit]:
        """Claim all units and store that they are to be deleted; or release them."""
        try:
            mine = await self._claim(lease, request)
            # A dry run: a policy that forbids the deletion must be found before the first unit is gone.
            await _delete(lease.client, mine[0], dry_run=True)
        except REFUSALS as error:
            await _release(lease.client, await _claimed(lease, request))
            raise refusal(f"the deletion of stock units of spec {request.spec_name!r}", error) from error
        await lease.report_progress(0, request.number, immediately=True)
        return mine

    async def _claim(self, lease: OperationLease, request: ReduceStock) -> list[GPUUnit]:
        mine: list[GPUUnit] = []
        for _ in range(ATTEMPTS):
            listed = await _listed(lease.client, request)
            mine = [unit for unit in listed if _is_claimed_by(unit, lease)]
            contested = False
            jobs: dict[str | None, bool] = {}
            for unit in dispensable(listed):
                if len(mine) >= request.number:
                    break
                job = unit.metadata.annotations.get(OPERATION_ID)
                if job not in jobs:
                    jobs[job] = await is_being_seeded(lease.client, unit, lease.operation.metadata.namespace)
                if jobs[job]:
                    continue
                # A unit that changed meanwhile may still be free: the next round reads it again.
                try:
                    mine.append(await _claim_one(lease, unit))
                except (ConflictError, NotFoundError):
                    contested = True
            if len(mine) >= request.number:
                return mine
            if not contested:
                break
        await _release(lease.client, mine)
        raise InsufficientCapacityError(
            f"spec {request.spec_name!r} has {len(mine)} stock units that are unclaimed, of no pool and of no running"
            f" job, expected {request.number} to delete; nothing was deleted"
        )


async def _listed(client: Client, request: ReduceStock) -> list[GPUUnit]:
    found = (await client.list(GPUUnit, request.namespace)).items
    return [unit for unit in found if unit.spec.spec_name == request.spec_name]


async def _claimed(lease: OperationLease, request: ReduceStock) -> list[GPUUnit]:
    return [unit for unit in await _listed(lease.client, request) if _is_claimed_by(unit, lease)]


def _is_claimed_by(unit: GPUUnit, lease: OperationLease) -> bool:
    claim = claim_of(unit.metadata)
    return claim is not None and claim.id == lease.operation.metadata.uid


async def _claim_one(lease: OperationLease, unit: GPUUnit) -> GPUUnit:
    meta = lease.operation.metadata
    patch = claim_patch(unit, Claim(meta.uid, meta.name, None), lease.now())
    return await lease.client.patch(GPUUnit, unit.metadata.name, unit.metadata.namespace, patch)


async def _release(client: Client, units: Sequence[GPUUnit]) -> None:
    for unit in units:
        await settle_claim(client, unit, None)


async def _delete(client: Client, unit: GPUUnit, *, dry_run: bool = False) -> None:
    meta = unit.metadata
    # It may be gone already, and another unit may have its name.
    with suppress(NotFoundError, ConflictError):
        await client.delete(GPUUnit, meta.name, meta.namespace, uid=meta.uid, dry_run=dry_run or None)
