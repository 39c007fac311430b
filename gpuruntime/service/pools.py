"""Pools on request: created, and what a change makes of them. Their units are made by whoever looks after pools."""

from typing import Any, ClassVar, Final

from attrs import frozen

from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH
from gpuruntime.api.namespaces import STOCK_NAMESPACE, Namespaces
from gpuruntime.api.operation import CREATE_STOCKPOOL, UPDATE_STOCKPOOL, Operation, OperationResult
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.desired.known_fields import known_fields
from gpuruntime.kube import AlreadyExistsError, Client, NotFoundError
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, ObjectMeta, Struct, is_dns_subdomain
from gpuruntime.service.errors import InvalidRequestError, NameTakenError
from gpuruntime.service.objects.admission import REFUSALS, refused
from gpuruntime.service.objects.merge_patch import changed
from gpuruntime.service.objects.spec_checks import pool_problems
from gpuruntime.service.objects.update import Changed, ObjectChange, read_or_none
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.operations import Operations
from gpuruntime.service.stock.names import batch_name

__all__ = [
    "POOL_CHANGE",
    "CreatePool",
    "PoolCreation",
    "StockPools",
    "complete_pool_change",
    "pool_name",
]

_PATIENCE_SECONDS: Final = 20.0


@frozen
class CreatePool(Struct):
    """Make a pool."""

    name: str
    spec: StockPoolSpec
    namespace: str = STOCK_NAMESPACE


def pool_name(spec_name: str, operation_id: str) -> str:
    """The name of a pool that was given none: a function of the operationID, as those of stock units are."""
    return f"pool-{batch_name(spec_name, operation_id).removeprefix('stock-')}"


def complete_pool_change(pool: StockPool, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The merge patch for a change of the spec; EMPTY if nothing would differ.

    Raises:
        InvalidRequestError: the pool would be an impossible one.
    """
    spec = changed(pool.spec, change.get("spec", EMPTY))
    problems = pool_problems(spec)
    if problems:
        raise InvalidRequestError(tuple(problems))
    return EMPTY if known_fields(spec) == known_fields(pool.spec) else change


POOL_CHANGE: Final = ObjectChange(UPDATE_STOCKPOOL, StockPool, complete_pool_change)
"""The work of an update_stockpool operation."""


@frozen
class PoolCreation:
    """The work of a create_stockpool operation.

    If the process dies after the creation, whoever takes the Operation over finds the pool by its annotations.
    """

    type: ClassVar = CREATE_STOCKPOOL

    async def run(self, hold: OperationLease) -> Outcome:
        """Create the pool.

        Raises:
            NameTakenError: another pool has the name.
            RefusedError: the API server takes no such pool.
            LostHoldError: the pool was made, and is deleted by now.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = hold.request(CreatePool)
        made = await self._made(hold, request) or await self._create(hold.client, request, hold.operation)
        return Outcome(OperationResult(StockPool.KIND.kind, request.name, request.namespace, made.metadata.uid), made)

    async def _made(self, hold: OperationLease, request: CreatePool) -> StockPool | None:
        """The pool of an earlier attempt."""
        if not hold.is_resumed:
            return None
        existing = await read_or_none(hold.client, StockPool, ObjectKey(request.namespace, request.name))
        if existing is not None and _marks(hold.operation).items() <= existing.metadata.annotations.items():
            return existing
        # Whoever deletes the pool ends the Operation first. So a pool that was not found after that is found ended.
        await hold.confirm()
        return None

    async def _create(self, client: Client, request: CreatePool, operation: Operation) -> StockPool:
        marks = _marks(operation)
        metadata = ObjectMeta(name=request.name, namespace=request.namespace, annotations=FrozenDict(marks))
        try:
            return await client.create(StockPool(metadata, request.spec))
        except AlreadyExistsError as error:
            existing = await read_or_none(client, StockPool, metadata.key)
            if existing is not None and marks.items() <= existing.metadata.annotations.items():
                return existing
            raise NameTakenError(
                f"pool {metadata.key} exists already and was made by another request; choose another name, or change it"
            ) from error
        except (*REFUSALS, NotFoundError) as error:
            raise refused(f"pool {metadata.key}", error) from error


def _marks(operation: Operation) -> dict[str, str]:
    return {OPERATION_ID: operation.spec.operation_id, REQUEST_HASH: operation.spec.request_hash}


@frozen
class StockPools:
    """Creates pools."""

    operations: Operations
    client: Client
    namespaces: Namespaces

    async def create(
        self, operation_id: str, request: CreatePool, *, within: float = _PATIENCE_SECONDS
    ) -> Changed[StockPool]:
        """Create a pool. A replay gives the pool as it is now.

        Raises:
            InvalidRequestError: nothing like that can be made.
            OperationConflictError: the operationID was used for another request.
            NameTakenError, RefusedError: nothing was made.
            NotFinishedError: it will be made; ask again.
            NotRunningError, KubeError: not now; ask again with the same operationID.
        """
        self._check(request)
        performed = await self.operations.perform(operation_id, CREATE_STOCKPOOL, request, within=within)
        if isinstance(performed.object, StockPool):
            return Changed(performed.object, performed)
        pool = await read_or_none(self.client, StockPool, ObjectKey(request.namespace, request.name))
        is_it = pool is not None and pool.metadata.uid == performed.result.uid
        return Changed(pool if is_it else None, performed)

    def _check(self, request: CreatePool) -> None:
        problems = pool_problems(request.spec)
        if not is_dns_subdomain(request.name):
            problems.append(f"name: expected lower-case letters, digits, '-' and '.', got {request.name!r}")
        if not self.namespaces.is_stock(request.namespace):
            listed = ", ".join(sorted(self.namespaces.stock))
            problems.append(f"namespace: expected a stock namespace ({listed}), got {request.namespace!r}")
        if problems:
            raise InvalidRequestError(tuple(problems))
