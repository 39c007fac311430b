"""Deleting an active unit: the stock unit that it came from is created again, unless a pool had supplied it.

::

    store the stock unit to return in the Operation ──> end the creation ──> delete the active unit ──> create the stock
    unit again

If the process dies, the replica that takes the Operation over repeats all steps. A unit that is gone stays gone,
because it is deleted by UID. A stock unit is not created twice, because it gets the name that it had, which stays in
use also when another active unit has taken it over since, see `stock.names`.
"""

import logging
from contextlib import suppress
from typing import ClassVar

from attrs import frozen

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import SOURCE_STOCK_ANNOTATIONS
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE
from gpuruntime.api.operation import DELETE_GPU_UNIT, OperationResult
from gpuruntime.api.projection import project
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.kube import AlreadyExistsError, ConflictError, NotFoundError
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, ObjectMeta, Struct
from gpuruntime.service.objects.admission import REFUSALS, refusal
from gpuruntime.service.objects.conflicts import ATTEMPTS, changed_each_time
from gpuruntime.service.objects.delete import end_creation
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.stock.names import CapacityNames
from gpuruntime.service.stock.release import release

__all__ = ["DeleteUnit", "DeleteUnitHandler", "ReturnedStock", "returned_unit", "stock_to_return"]

_LOG = logging.getLogger(__name__)


@frozen
class ReturnedStock(Struct):
    """The stock unit to create again when an active unit is deleted, with the annotations of its seed request."""

    name: str
    namespace: str
    uid: str
    reservation: Reservation
    annotations: FrozenDict[str, str] = EMPTY


@frozen
class DeleteUnit(Struct):
    """Delete an active unit, and return the stock that it came from.

    The caller sends name and namespace. The UID and the stock to return are added when the Operation is created: after
    the deletion they cannot be read any more.
    """

    name: str
    namespace: str = INSTANCE_NAMESPACE
    uid: str = ""
    returned: ReturnedStock | None = None


def stock_to_return(unit: GPUUnit) -> ReturnedStock | None:
    """The stock unit to create again when the active unit is deleted; None after a cold start or from a pool."""
    source = provenance_of(unit.metadata)
    if source is None or source.pool:
        return None
    carried = unit.metadata.annotations
    marks = FrozenDict({mark: carried[name] for mark, name in SOURCE_STOCK_ANNOTATIONS.items() if name in carried})
    reservation = project(unit.spec, Reservation)
    return ReturnedStock(source.stock.name, source.stock.namespace, source.uid, reservation, marks)


def returned_unit(stock: ReturnedStock) -> GPUUnit:
    """The stock unit to create: with the reservation of the active unit, and nothing of what its user ran."""
    metadata = ObjectMeta(name=stock.name, namespace=stock.namespace, annotations=stock.annotations)
    return GPUUnit(metadata, project(stock.reservation, GPUUnitSpec))


@frozen
class DeleteUnitHandler:
    """Executes delete_gpu_unit operations."""

    type: ClassVar = DELETE_GPU_UNIT
    names: CapacityNames

    async def run(self, lease: OperationLease) -> Outcome:
        """Delete the unit and return its stock.

        Stock that the API server rejects, for a quota for instance, is returned by a later attempt; the caller does not
        wait for that.

        Raises:
            RefusedError: the API server rejected the deletion.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        request = lease.request(DeleteUnit)
        result = OperationResult(GPUUnit.KIND.kind, request.name, request.namespace, request.uid)
        is_ours = await self._delete(lease, request)
        stock = request.returned
        if stock is not None:
            try:
                await self._return_stock(lease, request, stock, is_ours=is_ours)
            except REFUSALS as error:
                about = {"stock": f"{stock.namespace}/{stock.name}", "error": str(error)}
                _LOG.warning("stock unit refused, returning it later", extra=about)
                return Outcome(result, cleanup=lambda: self._return_stock(lease, request, stock, is_ours=False))
        return Outcome(result)

    async def _delete(self, lease: OperationLease, request: DeleteUnit) -> bool:
        """Delete the unit; false if it was gone already."""
        current = await read_or_none(lease.client, GPUUnit, ObjectKey(request.namespace, request.name))
        if current is None or current.metadata.uid != request.uid:
            return False
        await end_creation(lease, current)
        # A conflict means that another unit has the name: ours is gone.
        with suppress(NotFoundError, ConflictError):
            try:
                await lease.client.delete(GPUUnit, request.name, request.namespace, uid=request.uid)
            except REFUSALS as error:
                raise refusal(f"the deletion of unit {current.key}", error) from error
            return True
        return False

    async def _return_stock(
        self, lease: OperationLease, request: DeleteUnit, stock: ReturnedStock, *, is_ours: bool
    ) -> None:
        """Create the stock unit again. Unless this attempt deleted the unit, it may exist already, or be consumed."""
        client, unit = lease.client, returned_unit(stock)
        for _ in range(ATTEMPTS):
            # In this order: a stock unit that is consumed between the two reads is found by the second one.
            existing = await read_or_none(client, GPUUnit, unit.key)
            if existing is None:
                if await lease.earlier(
                    lambda: self.names.is_consumed(client, unit.key, excluding=request.uid), is_seen=not is_ours
                ):
                    return
                with suppress(AlreadyExistsError):
                    await client.create(unit)
                    return
                continue
            with suppress(NotFoundError, ConflictError):
                claim = claim_of(existing.metadata)
                is_old = existing.metadata.uid == stock.uid and claim is not None
                if is_old and claim is not None and claim.claimed_for == ObjectKey(request.namespace, request.name):
                    # The hand-off was not finished. The Operation that was about to delete the stock unit gets a
                    # conflict, or was faster: then the next round creates it again.
                    await release(client, existing, claim)
                return
        raise changed_each_time(f"stock unit {unit.key}")
