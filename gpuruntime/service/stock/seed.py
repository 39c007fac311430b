"""Seeding stock: a batch of stock units under names that follow from the operationID.

A name stands for one piece of capacity: it belongs to a stock unit of that name, or to the active unit that took it
over, whose provenance names it and whose deletion makes the stock unit again. So a batch that is resumed, by whoever
and however late, makes exactly the units that are missing, and none that was consumed meanwhile.
"""

from typing import ClassVar, Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH, STOCK_ORDINAL, STOCK_REPLICAS
from gpuruntime.api.operation import SEED_STOCK_UNITS, Operation, OperationResult, operation_name
from gpuruntime.kube import AlreadyExistsError, Client, NotFoundError
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.service.errors import FailedForGoodError, NameTakenError
from gpuruntime.service.objects.admission import REFUSALS, refused
from gpuruntime.service.objects.update import read_or_none
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.operations.requests import SeedStock
from gpuruntime.service.stock.capacity_names import CapacityNames
from gpuruntime.service.stock.names import batch_name, stock_name

__all__ = ["StockSeeding", "batch_result", "is_being_seeded", "seeded_unit"]

_MARKS: Final = (OPERATION_ID, REQUEST_HASH)


def seeded_unit(request: SeedStock, operation: Operation, ordinal: int) -> GPUUnit:
    """One stock unit of a batch, as it is to be created; ordinals begin with 1."""
    envelope = request.envelope
    batch = batch_name(envelope.spec_name, operation.spec.operation_id)
    metadata = ObjectMeta(
        name=stock_name(batch, ordinal),
        namespace=request.namespace,
        annotations=FrozenDict(
            {
                OPERATION_ID: operation.spec.operation_id,
                REQUEST_HASH: operation.spec.request_hash,
                STOCK_REPLICAS: str(request.replicas),
                STOCK_ORDINAL: str(ordinal),
            }
        ),
    )
    return GPUUnit(metadata, envelope.spec())


def batch_result(request: SeedStock, operation: Operation) -> OperationResult:
    """How an Operation names its batch."""
    batch = batch_name(request.envelope.spec_name, operation.spec.operation_id)
    return OperationResult(GPUUnit.KIND.kind, batch, request.namespace)


async def is_being_seeded(client: Client, unit: GPUUnit, namespace: str) -> bool:
    """Whether the job that makes the unit's batch, in this namespace of Operations, has not ended.

    Whoever takes such a job over makes what is missing: a unit that is deleted before the job's end may come back.
    """
    operation_id = unit.metadata.annotations.get(OPERATION_ID)
    if operation_id is None:
        return False
    job = await read_or_none(client, Operation, ObjectKey(namespace, operation_name(operation_id)))
    return job is not None and job.spec.type == SEED_STOCK_UNITS and not has_ended(job)


@frozen
class StockSeeding:
    """The work of a seed_stock_units operation.

    If the process dies after any number of units, whoever takes the Operation over looks which names are in use, and
    makes the others.
    """

    type: ClassVar = SEED_STOCK_UNITS
    names: CapacityNames

    async def run(self, hold: OperationLease) -> Outcome:
        """Make the units that are missing.

        Raises:
            FailedForGoodError: a unit cannot be made. Whoever asked went away when the job was accepted, so the job is
                kept to say so, also if it is about the first unit; the same request, sent again, makes the rest.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = hold.request(SeedStock)
        used = await self.names.in_use(hold.client, request.namespace)
        for ordinal in range(1, request.replicas + 1):
            unit = seeded_unit(request, hold.operation, ordinal)
            if unit.metadata.name not in used:
                await self._create(hold.client, unit, ordinal)
            await hold.report(ordinal, request.replicas)
        return Outcome(batch_result(request, hold.operation))

    async def _create(self, client: Client, unit: GPUUnit, ordinal: int) -> None:
        before = f"stock unit {unit.key}, after {ordinal - 1} others,"
        try:
            await client.create(unit)
        except AlreadyExistsError as error:
            existing = await client.get(GPUUnit, unit.metadata.name, unit.metadata.namespace)
            if any(existing.metadata.annotations.get(name) != unit.metadata.annotations[name] for name in _MARKS):
                said = f"{before} exists already and was made by another request; delete it"
                raise FailedForGoodError(NameTakenError.code, said) from error
        except (*REFUSALS, NotFoundError) as error:
            refusal = refused(before, error)
            raise FailedForGoodError(refusal.code, str(refusal)) from error
