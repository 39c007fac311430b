"""Creating an active unit: by a hand-off from a stock unit, or cold.

::

    lock the storages ──> claim a stock unit ──> create the active unit, which names all ──> delete the stock unit
                                                       the point of no return

If a step is refused, the claim and the locks of this Operation are released. If the process dies, the replica that
takes the Operation over does this:

    before the first lock   it starts again
    after some locks        it finds them by the Operation's UID, and takes the others. If the Operation is gone, they
                            are void, and the lock reaper releases them
    after the claim         it finds the claim by the Operation's UID, and continues with it. If the Operation is gone,
                            the claim is void, and the claim reconciler releases it
    after the creation      it finds the active unit, and deletes the stock unit that it names. Without any API replica
                            the claim reconciler does. A duplicate of the request gets its result at once, on any
                            replica, because the active unit carries the Operation's UID: see `unit_evidence`
    after the deletion      it finds the active unit, and ends the Operation
"""

from contextlib import suppress
from typing import ClassVar

from attrs import evolve, frozen

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import CLAIM_ID, OPERATION_ID, REQUEST_HASH, SOURCE_STOCK_ANNOTATIONS
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE, STOCK_NAMESPACE, Namespaces
from gpuruntime.api.operation import CREATE_GPU_UNIT, Operation, OperationResult
from gpuruntime.api.projection import field_values
from gpuruntime.control import Informer, Store
from gpuruntime.desired.provenance import Provenance, claim_of, provenance_of
from gpuruntime.desired.storage.locks import Lock, holder_name
from gpuruntime.kube import AlreadyExistsError, Client, NotFoundError
from gpuruntime.meta import (
    EMPTY,
    DecodeError,
    FrozenDict,
    ObjectKey,
    ObjectMeta,
    Struct,
    decode,
    thaw,
)
from gpuruntime.schema import violations
from gpuruntime.service.errors import NameTakenError, RefusedError, ServiceError
from gpuruntime.service.objects.admission import (
    REFUSALS,
    key_violations,
    label_violations,
    namespace_violations,
    raise_if_any,
    refusal,
)
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.results import Evidence
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.stock.claim import StockClaims, WantedStock, no_capacity
from gpuruntime.service.stock.release import settle_claim
from gpuruntime.service.storage.locks import LockedByAnotherError
from gpuruntime.service.units.mounts import lock_mounts, storage_in_use, unlock_mounts

__all__ = ["CreateUnit", "CreateUnitHandler", "active_unit", "check_create", "result_of", "unit_evidence"]


@frozen
class CreateUnit(Struct):
    """Create an active unit: on the reservation of a ready stock unit of the flavour, or cold, on its own.

    Only the spec of a cold start has an envelope and a placement; otherwise the stock unit has them. `stock_name` names
    the stock unit to take; "" is the oldest of the flavour.
    """

    name: str
    spec: GPUUnitSpec
    namespace: str = INSTANCE_NAMESPACE
    stock_namespace: str = STOCK_NAMESPACE
    stock_name: str = ""
    labels: FrozenDict[str, str] = EMPTY
    cold_start: bool = False


def check_create(request: CreateUnit, namespaces: Namespaces) -> None:
    """Return if the request is valid.

    Raises:
        InvalidRequestError: it is not.
    """
    key = ObjectKey(request.namespace, request.name)
    raise_if_any(
        [
            *key_violations(key, "active units", namespaces.instance),
            *namespace_violations("stockNamespace", request.stock_namespace, "stock", namespaces.stock),
            *violations(request.spec, GPUUnitSpec),
            *label_violations(request.labels),
        ]
    )


def active_unit(request: CreateUnit, operation: Operation, stock: GPUUnit | None) -> GPUUnit:
    """The active unit to create: its reservation is the stock unit's, everything else is the user's."""
    spec = request.spec if stock is None else evolve(request.spec, **field_values(stock.spec, Reservation))
    annotations = {
        OPERATION_ID: operation.spec.operation_id,
        REQUEST_HASH: operation.spec.request_hash,
        CLAIM_ID: operation.metadata.uid,
    }
    if stock is not None:
        claim = claim_of(stock.metadata)
        pool = "" if claim is None else claim.pool
        annotations |= Provenance(stock.key, stock.metadata.uid, pool).annotations()
        marks = stock.metadata.annotations
        annotations |= {name: marks[mark] for mark, name in SOURCE_STOCK_ANNOTATIONS.items() if mark in marks}
    metadata = ObjectMeta(
        name=request.name, namespace=request.namespace, labels=request.labels, annotations=FrozenDict(annotations)
    )
    return GPUUnit(metadata, spec)


def result_of(unit: GPUUnit) -> OperationResult:
    """The result of an Operation that created this unit."""
    return OperationResult(GPUUnit.KIND.kind, unit.metadata.name, unit.metadata.namespace, unit.metadata.uid)


@frozen
class CreateUnitHandler:
    """Executes create_gpu_unit operations."""

    type: ClassVar = CREATE_GPU_UNIT
    claims: StockClaims
    units: Store[GPUUnit]

    async def run(self, lease: OperationLease) -> Outcome:
        """Create the unit. The result is certain from the point of no return on; the stock unit is deleted as cleanup.

        Raises:
            InvalidRequestError: a storage does not exist.
            StorageInUseError: another holder has a storage.
            InsufficientCapacityError: no ready stock unit is available.
            NameTakenError: another unit has the name.
            RefusedError: the API server rejected the unit.
            LeaseLostError: the unit was created, and deleted since.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        operation = lease.operation
        request = lease.request(CreateUnit)
        key = ObjectKey(request.namespace, request.name)
        # If the unit exists and the cache does not show it yet, the create reports it.
        existing = await lease.earlier(lambda: read_or_none(lease.client, GPUUnit, key), is_seen=key in self.units)
        if existing is not None and _is_requested_by(existing, operation):
            return self._outcome(lease, existing)
        # A deletion ends this Operation before it deletes the unit. So after a deletion this raises.
        await lease.confirm()
        await self._lock_storages(lease, request)
        try:
            stock = await self._stock(lease, request)
            try:
                active = await self._create(lease.client, request, operation, stock)
            except (NameTakenError, RefusedError):
                if stock is not None:
                    await settle_claim(lease.client, stock, None)
                raise
        except ServiceError:
            mounts = request.spec.storage_mounts
            await unlock_mounts(lease.client, request.namespace, mounts, _lock(request, operation))
            raise
        return self._outcome(lease, active, stock)

    async def _lock_storages(self, lease: OperationLease, request: CreateUnit) -> None:
        # Before the claim: a storage in use is refused without a change of any stock unit.
        spec, lock = request.spec, _lock(request, lease.operation)
        try:
            await lock_mounts(lease.client, request.namespace, spec, spec.storage_mounts, lock, lease.now())
        except LockedByAnotherError as error:
            key = ObjectKey(request.namespace, request.name)
            is_same = error.lock.holder == lock.holder
            existing = await read_or_none(lease.client, GPUUnit, key) if is_same else None
            if existing is None:
                raise storage_in_use(error.storage.key, error.lock) from error
            if not _is_requested_by(existing, lease.operation):
                raise _name_taken(request) from error

    async def _stock(self, lease: OperationLease, request: CreateUnit) -> GPUUnit | None:
        if request.cold_start:
            return None
        find = self.claims.find
        claimed = await lease.earlier(lambda: find(lease.client, lease.operation, request.stock_namespace))
        if claimed is not None:
            return claimed
        wanted = WantedStock(request.stock_namespace, request.spec.spec_name, request.stock_name)
        active = ObjectKey(request.namespace, request.name)
        found = await self.claims.claim(lease.client, lease.operation, wanted, active)
        if found is None:
            raise no_capacity(wanted)
        return found

    async def _create(
        self, client: Client, request: CreateUnit, operation: Operation, stock: GPUUnit | None
    ) -> GPUUnit:
        try:
            return await client.create(active_unit(request, operation, stock))
        except AlreadyExistsError as error:
            existing = await read_or_none(client, GPUUnit, ObjectKey(request.namespace, request.name))
            if existing is not None and _is_requested_by(existing, operation):
                return existing
            raise _name_taken(request) from error
        except (*REFUSALS, NotFoundError) as error:
            raise refusal(f"unit {request.namespace}/{request.name}", error) from error

    def _outcome(self, lease: OperationLease, active: GPUUnit, stock: GPUUnit | None = None) -> Outcome:
        return Outcome(
            result_of(active),
            active,
            cleanup=lambda: self._finish_handoff(lease.client, active, stock),
            is_evident=_was_made_by(active, lease.operation),
        )

    async def _finish_handoff(self, client: Client, active: GPUUnit, stock: GPUUnit | None) -> None:
        source = provenance_of(active.metadata)
        if stock is None and source is not None:
            with suppress(NotFoundError):
                stock = await client.get(GPUUnit, source.stock.name, source.stock.namespace)
        if stock is not None:
            await settle_claim(client, stock, active)


def unit_evidence(units: Informer[GPUUnit]) -> Evidence[GPUUnit]:
    """Derives the result of a create_gpu_unit operation from the unit that it created."""

    def key(operation: Operation) -> ObjectKey | None:
        try:
            request = decode(CreateUnit, thaw(operation.spec.request or {}))
        except DecodeError:
            return None
        return ObjectKey(request.namespace, request.name)

    def result(operation: Operation, unit: GPUUnit) -> OperationResult | None:
        return result_of(unit) if _was_made_by(unit, operation) else None

    return Evidence(CREATE_GPU_UNIT, GPUUnit, units, key, result)


def _lock(request: CreateUnit, operation: Operation) -> Lock:
    """The lock of the Operation for the unit that it is about to create."""
    holder = GPUUnit(ObjectMeta(name=request.name, namespace=request.namespace), request.spec)
    return Lock(holder_name(holder), operation=operation.metadata.name, operation_uid=operation.metadata.uid)


def _name_taken(request: CreateUnit) -> NameTakenError:
    return NameTakenError(
        f"unit {request.namespace}/{request.name} exists already and was created by another request; "
        "choose another name, or delete it"
    )


def _was_made_by(unit: GPUUnit, operation: Operation) -> bool:
    """Whether this Operation created the unit, by UID, and not an earlier one of the same operationID."""
    return _is_requested_by(unit, operation) and unit.metadata.annotations.get(CLAIM_ID) == operation.metadata.uid


def _is_requested_by(unit: GPUUnit, operation: Operation) -> bool:
    """Whether the unit was created for the same operationID and request: then it is the requested one."""
    annotations = unit.metadata.annotations
    asked = (operation.spec.operation_id, operation.spec.request_hash)
    return (annotations.get(OPERATION_ID), annotations.get(REQUEST_HASH)) == asked
