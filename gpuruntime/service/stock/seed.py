"""Seeding stock: a batch of stock units whose names follow from the operationID.

A name stands for one piece of capacity, see `names`: it belongs to the stock unit, or to the active unit that took it
over and whose deletion creates the stock unit again. So a batch that is resumed, by any replica and however late,
creates exactly the missing units, and none that was consumed meanwhile.
"""

from typing import ClassVar, Final

from attrs import frozen

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH, STOCK_ORDINAL, STOCK_REPLICAS
from gpuruntime.api.namespaces import STOCK_NAMESPACE, Namespaces
from gpuruntime.api.operation import SEED_STOCK_UNITS, Operation, OperationResult, operation_name
from gpuruntime.api.projection import project
from gpuruntime.api.rest.stock_units import LARGEST_BATCH
from gpuruntime.kube import AlreadyExistsError, Client, NotFoundError
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta, Struct
from gpuruntime.schema import Violation, violations
from gpuruntime.service.errors import NameTakenError, OperationFailedError
from gpuruntime.service.objects.admission import REFUSALS, namespace_violations, raise_if_any, refusal
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.operations.submit import Operations, Submitted
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.stock.names import CapacityNames, batch_name, stock_name

__all__ = [
    "SeedStock",
    "SeedStockHandler",
    "StockBatches",
    "batch_result",
    "check_seed",
    "is_being_seeded",
    "seeded_unit",
]

_IDENTITY: Final = (OPERATION_ID, REQUEST_HASH)


@frozen
class SeedStock(Struct):
    """Create a number of stock units, each with this reservation."""

    reservation: Reservation
    replicas: int
    namespace: str = STOCK_NAMESPACE


def check_seed(request: SeedStock, namespaces: Namespaces) -> None:
    """Return if the request is valid.

    Raises:
        InvalidRequestError: it is not.
    """
    found: list[Violation] = []
    if not 1 <= request.replicas <= LARGEST_BATCH:
        found.append(Violation.of("replicas", f"1 to {LARGEST_BATCH}", request.replicas))
    found += namespace_violations("namespace", request.namespace, "stock", namespaces.stock)
    found += violations(project(request.reservation, GPUUnitSpec), GPUUnitSpec)
    raise_if_any(found)


def seeded_unit(request: SeedStock, operation: Operation, ordinal: int) -> GPUUnit:
    """One stock unit of a batch, to create; ordinals start at 1."""
    batch = batch_name(request.reservation.spec_name, operation.spec.operation_id)
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
    return GPUUnit(metadata, project(request.reservation, GPUUnitSpec))


def batch_result(request: SeedStock, operation: Operation) -> OperationResult:
    """The result of a seed operation: the name of its batch."""
    batch = batch_name(request.reservation.spec_name, operation.spec.operation_id)
    return OperationResult(GPUUnit.KIND.kind, batch, request.namespace)


async def is_being_seeded(client: Client, unit: GPUUnit, operations_namespace: str) -> bool:
    """Whether the operation that seeds the unit's batch has not ended.

    A replica that takes the operation over creates the missing units: a unit that is deleted before its end may be
    created again.
    """
    operation_id = unit.metadata.annotations.get(OPERATION_ID)
    if operation_id is None:
        return False
    job = await read_or_none(client, Operation, ObjectKey(operations_namespace, operation_name(operation_id)))
    return job is not None and job.spec.type == SEED_STOCK_UNITS and not has_ended(job)


@frozen
class SeedStockHandler:
    """Executes seed_stock_units operations.

    If the process dies after any number of units, the replica that takes the Operation over reads which names are in
    use, and creates the others.
    """

    type: ClassVar = SEED_STOCK_UNITS
    names: CapacityNames

    async def run(self, lease: OperationLease) -> Outcome:
        """Create the missing units.

        Raises:
            OperationFailedError: a unit cannot be created. The caller left when the request was accepted, so the
                Operation is kept to say why, also if it is the first unit; the same request, sent again, creates the
                rest.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        request = lease.request(SeedStock)
        used = await self.names.in_use(lease.client, request.namespace)
        for ordinal in range(1, request.replicas + 1):
            unit = seeded_unit(request, lease.operation, ordinal)
            if unit.metadata.name not in used:
                await self._create(lease.client, unit, ordinal)
            await lease.report_progress(ordinal, request.replicas)
        return Outcome(batch_result(request, lease.operation))

    async def _create(self, client: Client, unit: GPUUnit, ordinal: int) -> None:
        what = f"stock unit {unit.key}, after {ordinal - 1} others,"
        try:
            await client.create(unit)
        except AlreadyExistsError as error:
            existing = await client.get(GPUUnit, unit.metadata.name, unit.metadata.namespace)
            if any(existing.metadata.annotations.get(name) != unit.metadata.annotations[name] for name in _IDENTITY):
                message = f"{what} exists already and was created by another request; delete it"
                raise OperationFailedError(NameTakenError.code, message) from error
        except (*REFUSALS, NotFoundError) as error:
            refused = refusal(what, error)
            raise OperationFailedError(refused.code, str(refused)) from error


@frozen
class StockBatches:
    """Seeds stock. The Operation is the job; when it has succeeded, all units are stored, but may not be ready."""

    operations: Operations
    namespaces: Namespaces

    async def seed(self, operation_id: str, request: SeedStock) -> Submitted:
        """Record the request and start it, without waiting for its end; a replay starts nothing.

        Raises:
            InvalidRequestError: the request is invalid.
            OperationConflictError: the operationID was used for another request.
            NotRunningError, KubeError: try again with the same operationID.
        """
        check_seed(request, self.namespaces)
        return await self.operations.submit(operation_id, SEED_STOCK_UNITS, request)
