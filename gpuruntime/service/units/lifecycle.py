"""Active units on request: created from stock or cold, and deleted with their stock given back."""

from typing import Final

from attrs import evolve, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.operation import CREATE_GPU_UNIT, DELETE_GPU_UNIT
from gpuruntime.kube import Client
from gpuruntime.meta import ObjectKey, is_dns_subdomain
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.update import ensure_version, read_or_none
from gpuruntime.service.operations.operations import Operations, Performed
from gpuruntime.service.operations.requests import CreateUnit, DeleteUnit, check_create
from gpuruntime.service.stock.claim import StockClaims, WantedStock, no_capacity
from gpuruntime.service.units.delete import stock_to_return

__all__ = ["ActiveUnits", "UnitAnswer"]

_PATIENCE_SECONDS: Final = 20.0


@frozen
class UnitAnswer:
    """What came of a request: the unit as it is now, None if it is gone by now, and the record of the request."""

    unit: GPUUnit | None
    performed: Performed


@frozen
class ActiveUnits:
    """Creates and deletes active units, in the instance namespaces."""

    operations: Operations
    claims: StockClaims
    client: Client
    namespaces: Namespaces

    def may_have(self, key: ObjectKey) -> bool:
        """Whether an active unit can have this name in this place."""
        is_place = key.namespace in self.namespaces.instance
        return is_place and is_dns_subdomain(key.name) and is_dns_subdomain(key.namespace)

    async def create(self, operation_id: str, request: CreateUnit, *, within: float = _PATIENCE_SECONDS) -> UnitAnswer:
        """Create a unit on the capacity of a ready stock unit, or cold. A replay gives the unit as it is now.

        Raises:
            InvalidRequestError: nothing like that can be made.
            OperationConflictError: the operationID was used for another request.
            InsufficientCapacityError, NameTakenError, RefusedError: nothing was made.
            NotFinishedError: it will be made; ask again.
            NotRunningError, KubeError: not now; ask again with the same operationID.
        """
        check_create(request, self.namespaces)
        return await self.create_checked(operation_id, request, within=within)

    async def create_checked(
        self, operation_id: str, request: CreateUnit, *, within: float = _PATIENCE_SECONDS
    ) -> UnitAnswer:
        """As `create`, for a request that the product itself has put together: it may set labels of the product's own.

        Raises:
            see `create`
        """
        wanted = WantedStock(request.stock_namespace, request.spec_name, request.stock_name)
        # Those who ask again and again until there is capacity should cost no write each time. The second look is for
        # stock that has just got ready: the cache hears of it while the server is asked.
        if self._is_hopeless(request, wanted):
            known = await self.operations.find(operation_id)
            if known is None and self._is_hopeless(request, wanted):
                self.claims.counters.turned_away()
                raise no_capacity(wanted)
        performed = await self.operations.perform(operation_id, CREATE_GPU_UNIT, request, within=within)
        if isinstance(performed.object, GPUUnit):
            return UnitAnswer(performed.object, performed)
        unit = await read_or_none(self.client, GPUUnit, ObjectKey(request.namespace, request.name))
        is_it = unit is not None and unit.metadata.uid == performed.result.uid
        return UnitAnswer(unit if is_it else None, performed)

    async def delete(
        self, operation_id: str, request: DeleteUnit, *, version: str = "", within: float = _PATIENCE_SECONDS
    ) -> UnitAnswer:
        """Delete a unit, and give back the stock that it came from unless a pool had supplied it.

        With a `version`, only if it is in the state of this version when the request comes.

        Raises:
            StaleVersionError: it is not; nothing was stored.
            ObjectNotFoundError: there is no such unit, and the operationID deleted none.
            OperationConflictError: the operationID was used for another request.
            RefusedError: the API server does not delete it; nothing was stored.
            NotFinishedError: it will be deleted; ask again.
            NotRunningError, KubeError: not now; ask again with the same operationID.
        """
        asked = DeleteUnit(request.name, request.namespace)
        key = ObjectKey(request.namespace, request.name)
        unit = await read_or_none(self.client, GPUUnit, key) if self.may_have(key) else None
        if unit is None and await self.operations.find(operation_id) is None:
            raise ObjectNotFoundError(f"unit {request.namespace}/{request.name}: expected one to delete, found none")
        noted = asked
        if unit is not None and version and await self.operations.find(operation_id) is None:
            ensure_version(unit, version)
        if unit is not None:
            noted = evolve(asked, uid=unit.metadata.uid, returned=stock_to_return(unit))
        performed = await self.operations.perform(operation_id, DELETE_GPU_UNIT, asked, stored=noted, within=within)
        return UnitAnswer(None, performed)

    def _is_hopeless(self, request: CreateUnit, wanted: WantedStock) -> bool:
        return not request.cold_start and not self.claims.may_succeed(wanted)
