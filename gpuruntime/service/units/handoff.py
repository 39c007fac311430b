"""Creating an active unit: on the capacity of a stock unit, or cold.

::

    claim a stock unit ──> create the active unit, which names it ──> delete the stock unit
                                  the point of no return

Where the process dies, and what happens then:

    before the claim        nothing was done; whoever takes the Operation over begins anew
    after the claim         whoever takes over finds the claim by the Operation's UID, and goes on with it; without any
                            worker the claim is void, and the reaper releases it once the Operation is gone
    after the creation      whoever takes over finds the active unit, and deletes the stock unit that it names; without
                            any worker the reaper does. A duplicate of the request is answered at once, on any replica,
                            because the active unit bears the UID of the Operation: see `unit_trace`
    after the deletion      whoever takes over finds the active unit, and nothing is left to do but to say so
"""

from contextlib import suppress
from typing import ClassVar

from attrs import evolve, frozen

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import CLAIM_ID, OPERATION_ID, REQUEST_HASH, SOURCE_STOCK_ANNOTATIONS
from gpuruntime.api.operation import CREATE_GPU_UNIT, Operation, OperationResult
from gpuruntime.control import Informer, Store
from gpuruntime.desired.provenance import Provenance, claim_of, provenance_of
from gpuruntime.kube import AlreadyExistsError, Client, NotFoundError
from gpuruntime.meta import DecodeError, FrozenDict, ObjectKey, ObjectMeta, decode, thaw
from gpuruntime.service.errors import NameTakenError, RefusedError
from gpuruntime.service.objects.admission import REFUSALS, refused
from gpuruntime.service.objects.update import read_or_none
from gpuruntime.service.operations.answers import Trace
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.requests import CreateUnit, Envelope
from gpuruntime.service.stock.claim import StockClaims, WantedStock, no_capacity
from gpuruntime.service.stock.release import settle_claim

__all__ = ["UnitCreation", "active_unit", "result_of", "unit_trace"]


def active_unit(request: CreateUnit, operation: Operation, stock: GPUUnit | None) -> GPUUnit:
    """The active unit as it is to be created: envelope and place of the stock unit, everything else the user's."""
    if stock is not None:
        reserved = stock.spec
        spec = GPUUnitSpec(
            reserved.spec_name,
            cpu=reserved.cpu,
            memory=reserved.memory,
            gpu=reserved.gpu,
            gpu_type=reserved.gpu_type,
            tolerations=reserved.tolerations,
            node_selector=reserved.node_selector,
            runtime_class_name=reserved.runtime_class_name,
        )
    else:
        spec = (request.envelope or Envelope(request.spec_name)).spec()
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
    user = evolve(
        spec,
        image=request.image,
        template=request.template,
        access=request.access,
        image_pull_secrets=request.image_pull_secrets,
        security_profile=request.security_profile,
    )
    return GPUUnit(metadata, user)


def result_of(unit: GPUUnit) -> OperationResult:
    """How an Operation names a unit."""
    return OperationResult(GPUUnit.KIND.kind, unit.metadata.name, unit.metadata.namespace, unit.metadata.uid)


@frozen
class UnitCreation:
    """The work of a create_gpu_unit operation."""

    type: ClassVar = CREATE_GPU_UNIT
    claims: StockClaims
    units: Store[GPUUnit]

    async def run(self, hold: OperationLease) -> Outcome:
        """Create the unit. The answer is known from the point of no return on; to delete the stock unit is the rest.

        Raises:
            InsufficientCapacityError: there is no ready stock.
            NameTakenError: another unit has the name.
            RefusedError: the API server takes no such unit.
            LostHoldError: the unit was made, and is deleted by now.
            KubeError: it is not known what came of it, or the server is away.
        """
        operation = hold.operation
        request = hold.request(CreateUnit)
        key = ObjectKey(request.namespace, request.name)
        # Without a reason to expect one, the name is tried: a unit that is there refuses it.
        existing = await read_or_none(hold.client, GPUUnit, key) if hold.is_resumed or key in self.units else None
        if existing is not None and _is_asked_for_by(existing, operation):
            return self._made(hold, existing)
        if hold.is_resumed:
            # Whoever deletes the unit ends the Operation first. So a unit that was not found after that is found ended.
            await hold.confirm()
        stock = await self._stock(hold, request)
        try:
            active = await self._create(hold.client, request, operation, stock)
        except (NameTakenError, RefusedError):
            if stock is not None:
                await settle_claim(hold.client, stock, None)
            raise
        return self._made(hold, active, stock)

    async def _stock(self, hold: OperationLease, request: CreateUnit) -> GPUUnit | None:
        if request.cold_start:
            return None
        if hold.is_resumed:
            claimed = await self.claims.find(hold.client, hold.operation, request.stock_namespace)
            if claimed is not None:
                return claimed
        wanted = WantedStock(request.stock_namespace, request.spec_name, request.stock_name)
        active = ObjectKey(request.namespace, request.name)
        found = await self.claims.claim(hold.client, hold.operation, wanted, active)
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
            if existing is not None and _is_asked_for_by(existing, operation):
                return existing
            raise NameTakenError(
                f"unit {request.namespace}/{request.name} exists already and was made by another request; "
                "choose another name, or delete it"
            ) from error
        except (*REFUSALS, NotFoundError) as error:
            raise refused(f"unit {request.namespace}/{request.name}", error) from error

    def _made(self, hold: OperationLease, active: GPUUnit, stock: GPUUnit | None = None) -> Outcome:
        return Outcome(
            result_of(active),
            active,
            rest=lambda: self._hand_over(hold.client, active, stock),
            is_evident=_was_made_by(active, hold.operation),
        )

    async def _hand_over(self, client: Client, active: GPUUnit, stock: GPUUnit | None) -> None:
        source = provenance_of(active.metadata)
        if stock is None and source is not None:
            with suppress(NotFoundError):
                stock = await client.get(GPUUnit, source.stock.name, source.stock.namespace)
        if stock is not None:
            await settle_claim(client, stock, active)


def unit_trace(units: Informer[GPUUnit]) -> Trace[GPUUnit]:
    """How the answer to a create_gpu_unit operation shows in the unit that it made."""

    def key(operation: Operation) -> ObjectKey | None:
        try:
            request = decode(CreateUnit, thaw(operation.spec.request or {}))
        except DecodeError:
            return None
        return ObjectKey(request.namespace, request.name)

    def result(operation: Operation, unit: GPUUnit) -> OperationResult | None:
        return result_of(unit) if _was_made_by(unit, operation) else None

    return Trace(CREATE_GPU_UNIT, GPUUnit, units, key, result)


def _was_made_by(unit: GPUUnit, operation: Operation) -> bool:
    """Whether this very Operation made the unit, and not an earlier one of the same operationID."""
    return _is_asked_for_by(unit, operation) and unit.metadata.annotations.get(CLAIM_ID) == operation.metadata.uid


def _is_asked_for_by(unit: GPUUnit, operation: Operation) -> bool:
    """Whether the unit was made for the same operationID and request: then it is what was asked for."""
    annotations = unit.metadata.annotations
    asked = (operation.spec.operation_id, operation.spec.request_hash)
    return (annotations.get(OPERATION_ID), annotations.get(REQUEST_HASH)) == asked
