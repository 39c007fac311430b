"""Deleting an active unit: the stock unit that it came from is made again, unless a pool had supplied it.

::

    note in the Operation what is to be given back ──> end the creation ──> delete the active unit ──> make the stock
    unit again

Where the process dies, and what happens then: whoever takes the Operation over does all steps again. A unit that is
gone stays gone, because it is deleted by UID. A stock unit is not made twice, because it gets the name that it had, and
that stands for its capacity also when another active unit has taken it over since.
"""

import logging
from contextlib import suppress
from typing import ClassVar, Final

from attrs import evolve, frozen

from gpuruntime.api.gpuunit import GPUUnit, UnitAccess
from gpuruntime.api.names import SOURCE_STOCK_ANNOTATIONS
from gpuruntime.api.operation import DELETE_GPU_UNIT, OperationResult
from gpuruntime.api.security_profile import BASELINE
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.kube import AlreadyExistsError, Client, ConflictError, NotFoundError, UnavailableError
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.service.objects.admission import REFUSALS, refused
from gpuruntime.service.objects.creation_ends import end_creation
from gpuruntime.service.objects.update import read_or_none
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.requests import DeleteUnit, ReturnedStock
from gpuruntime.service.stock.capacity_names import CapacityNames
from gpuruntime.service.stock.release import release

__all__ = ["UnitDeletion", "stock_to_return"]

_LOG = logging.getLogger(__name__)
_ATTEMPTS: Final = 5


def stock_to_return(unit: GPUUnit) -> ReturnedStock | None:
    """The stock unit to make again when the active unit goes; None for one from a pool, and for one started cold."""
    source = provenance_of(unit.metadata)
    if source is None or source.pool:
        return None
    # What the user brought goes with the user; what the capacity is made of stays.
    spec = evolve(
        unit.spec,
        image=None,
        template=UnitTemplate(),
        access=UnitAccess(),
        image_pull_secrets=(),
        security_profile=BASELINE,
    )
    carried = unit.metadata.annotations
    marks = FrozenDict({mark: carried[name] for mark, name in SOURCE_STOCK_ANNOTATIONS.items() if name in carried})
    return ReturnedStock(source.stock.name, source.stock.namespace, source.uid, spec, marks)


@frozen
class UnitDeletion:
    """The work of a delete_gpu_unit operation."""

    type: ClassVar = DELETE_GPU_UNIT
    names: CapacityNames

    async def run(self, hold: OperationLease) -> Outcome:
        """Delete the unit and give its stock back.

        Stock that the API server refuses, by a quota for instance, is given back when it does not any more. Whoever
        deletes a unit does not wait for that.

        Raises:
            RefusedError: the API server does not delete the unit.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = hold.request(DeleteUnit)
        result = OperationResult(GPUUnit.KIND.kind, request.name, request.namespace, request.uid)
        is_ours = await self._delete(hold, request) and not hold.is_resumed
        stock = request.returned
        if stock is not None:
            try:
                await self._give_back(hold.client, request, stock, is_ours=is_ours)
            except REFUSALS as error:
                about = {"stock": f"{stock.namespace}/{stock.name}", "error": str(error)}
                _LOG.warning("stock is refused, and will be given back later", extra=about)
                return Outcome(result, rest=lambda: self._give_back(hold.client, request, stock, is_ours=False))
        return Outcome(result)

    async def _delete(self, hold: OperationLease, request: DeleteUnit) -> bool:
        """Delete the unit; false if it was gone, by whoever's hand."""
        current = await read_or_none(hold.client, GPUUnit, ObjectKey(request.namespace, request.name))
        if current is None or current.metadata.uid != request.uid:
            return False
        await end_creation(hold, current)
        # A conflict means that another unit has the name by now: ours is gone.
        with suppress(NotFoundError, ConflictError):
            try:
                await hold.client.delete(GPUUnit, request.name, request.namespace, uid=request.uid)
            except REFUSALS as error:
                raise refused(f"the deletion of unit {current.key}", error) from error
            return True
        return False

    async def _give_back(self, client: Client, request: DeleteUnit, stock: ReturnedStock, *, is_ours: bool) -> None:
        """Make the stock unit again. Unless the deletion was ours, somebody else may have, and it may be consumed."""
        metadata = ObjectMeta(name=stock.name, namespace=stock.namespace, annotations=stock.annotations)
        unit = GPUUnit(metadata, stock.spec)
        for _ in range(_ATTEMPTS):
            # In this order: one that is there can be consumed between two looks, and is found by the second one then.
            existing = await read_or_none(client, GPUUnit, unit.key)
            if existing is None:
                if not is_ours and await self.names.is_consumed(client, unit.key, besides=request.uid):
                    return
                with suppress(AlreadyExistsError):
                    await client.create(unit)
                    return
                continue
            with suppress(NotFoundError, ConflictError):
                claim = claim_of(existing.metadata)
                is_old = existing.metadata.uid == stock.uid and claim is not None
                if is_old and claim is not None and claim.claimed_for == ObjectKey(request.namespace, request.name):
                    # The hand-over had not come to its end. Whoever was about to delete the stock unit finds that it is
                    # not claimed any more, or was faster: then it is made again.
                    await release(client, existing, claim)
                return
        raise UnavailableError(f"stock unit {unit.key} changes all the time; it is given back later")
