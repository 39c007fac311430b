"""Requests for active units: checks them, submits them as Operations, and waits for the result.

What a creation and a deletion do is in `create` and `delete`.
"""

from typing import Final

from attrs import evolve, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import CREATE_GPU_UNIT, DELETE_GPU_UNIT
from gpuruntime.kube import Client
from gpuruntime.meta import ObjectKey, is_dns_subdomain
from gpuruntime.service.errors import ObjectNotFoundError, ServiceError
from gpuruntime.service.objects.served_kind import ServedKind
from gpuruntime.service.objects.update import WriteResult, ensure_version, write_result
from gpuruntime.service.operations.submit import DEFAULT_WAIT_SECONDS, Operations
from gpuruntime.service.reads.informers import watch_units
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.stock.claim import StockClaims, WantedStock, no_capacity
from gpuruntime.service.units.create import CreateUnit, check_create
from gpuruntime.service.units.delete import DeleteUnit, stock_to_return
from gpuruntime.service.units.mounts import check_free
from gpuruntime.service.units.update import UNIT_UPDATE

__all__ = ["ACTIVE_UNITS", "ActiveUnits"]

ACTIVE_UNITS: Final = ServedKind(
    GPUUnit,
    lambda namespaces: namespaces.instance,
    watch=lambda cache, namespaces: watch_units(cache, namespaces.units),
    update=UNIT_UPDATE,
)
"""Active units in the API. Their creation claims stock and their deletion returns it, see `ActiveUnits`."""


@frozen
class ActiveUnits:
    """Creates and deletes active units in the instance namespaces."""

    operations: Operations
    claims: StockClaims
    client: Client
    namespaces: Namespaces

    def may_have(self, key: ObjectKey) -> bool:
        """Whether an active unit can have this name and namespace."""
        is_active = key.namespace in self.namespaces.instance
        return is_active and is_dns_subdomain(key.name) and is_dns_subdomain(key.namespace)

    async def create(
        self, operation_id: str, request: CreateUnit, *, within: float = DEFAULT_WAIT_SECONDS
    ) -> WriteResult[GPUUnit]:
        """Create a unit with the capacity of a ready stock unit, or cold. A replay returns the unit as it is now.

        Raises:
            InvalidRequestError: the request is invalid.
            OperationConflictError: the operationID was used for another request.
            StorageInUseError: another holder has a storage of the unit.
            InsufficientCapacityError, NameTakenError, RefusedError: nothing was created.
            NotFinishedError: it will be created; retry with the same operationID.
            NotRunningError, KubeError: try again with the same operationID.
        """
        check_create(request, self.namespaces)
        return await self.create_checked(operation_id, request, within=within)

    async def create_checked(
        self, operation_id: str, request: CreateUnit, *, within: float = DEFAULT_WAIT_SECONDS
    ) -> WriteResult[GPUUnit]:
        """As `create`, for a request that the product itself has built: it may set the product's own labels.

        Raises:
            see `create`
        """
        wanted = WantedStock(request.stock_namespace, request.spec.spec_name, request.stock_name)
        # A caller that polls for capacity or a storage should cost no write each time. The second check is for stock
        # that has just become ready: the cache may show it after the live read.
        if self._lacks_stock(request, wanted):
            known = await self.operations.find(operation_id)
            if known is None and self._lacks_stock(request, wanted):
                self.claims.counters.rejected()
                raise no_capacity(wanted)
        await self._check_storages(operation_id, request)
        performed = await self.operations.perform(operation_id, CREATE_GPU_UNIT, request, within=within)
        return await write_result(self.client, GPUUnit, ObjectKey(request.namespace, request.name), performed)

    async def delete(
        self, operation_id: str, request: DeleteUnit, *, version: str = "", within: float = DEFAULT_WAIT_SECONDS
    ) -> WriteResult[GPUUnit]:
        """Delete a unit, and return the stock that it came from unless a pool had supplied it.

        With a `version`, only if the unit is at this resourceVersion when the request arrives.

        Raises:
            StaleVersionError: it is not; nothing was stored.
            ObjectNotFoundError: there is no such unit, and this operationID deleted none.
            OperationConflictError: the operationID was used for another request.
            RefusedError: the API server rejected the deletion; nothing was stored.
            NotFinishedError: it will be deleted; retry with the same operationID.
            NotRunningError, KubeError: try again with the same operationID.
        """
        asked = DeleteUnit(request.name, request.namespace)
        key = ObjectKey(request.namespace, request.name)
        unit = await read_or_none(self.client, GPUUnit, key) if self.may_have(key) else None
        if unit is None and await self.operations.find(operation_id) is None:
            raise ObjectNotFoundError(f"unit {request.namespace}/{request.name}: expected one to delete, found none")
        stored = asked
        if unit is not None and version and await self.operations.find(operation_id) is None:
            ensure_version(unit, version)
        if unit is not None:
            stored = evolve(asked, uid=unit.metadata.uid, returned=stock_to_return(unit))
        performed = await self.operations.perform(operation_id, DELETE_GPU_UNIT, asked, stored=stored, within=within)
        return WriteResult(None, performed)

    async def _check_storages(self, operation_id: str, request: CreateUnit) -> None:
        spec = request.spec
        holder = f"{GPUUnit.KIND.plural}/{request.name}"
        try:
            await check_free(self.client, request.namespace, spec, spec.storage_mounts, holder)
        except ServiceError:
            # A replay must succeed also when the storages have changed since.
            if await self.operations.find(operation_id) is None:
                raise

    def _lacks_stock(self, request: CreateUnit, wanted: WantedStock) -> bool:
        return not request.cold_start and not self.claims.may_find(wanted)
