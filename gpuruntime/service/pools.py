"""Pools on request: create, update, delete. Their stock units are created by the StockPool reconciler."""

from typing import Any, ClassVar, Final

from attrs import frozen

from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH
from gpuruntime.api.namespaces import STOCK_NAMESPACE, Namespaces
from gpuruntime.api.operation import (
    CREATE_STOCKPOOL,
    DELETE_STOCKPOOL,
    UPDATE_STOCKPOOL,
    Operation,
    OperationResult,
)
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.kube import AlreadyExistsError, Client, NotFoundError
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, ObjectMeta, Struct, is_dns_subdomain, known_fields
from gpuruntime.schema import Violation
from gpuruntime.service.errors import NameTakenError
from gpuruntime.service.objects.admission import REFUSALS, pool_problems, raise_if_any, refusal
from gpuruntime.service.objects.delete import DeleteObjectHandler
from gpuruntime.service.objects.update import UpdateObjectHandler, WriteResult, patched, write_result
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.submit import DEFAULT_WAIT_SECONDS, Operations
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.stock.names import batch_name
from gpuruntime.service.stock.seed import stock_namespace_problems

__all__ = [
    "POOL_DELETION",
    "POOL_UPDATE",
    "CreatePool",
    "CreatePoolHandler",
    "StockPools",
    "pool_name",
    "pool_patch",
]


@frozen
class CreatePool(Struct):
    """Create a pool."""

    name: str
    spec: StockPoolSpec
    namespace: str = STOCK_NAMESPACE


def pool_name(spec_name: str, operation_id: str) -> str:
    """The default name of a pool: it follows from the operationID, as the names of stock units do."""
    return f"pool-{batch_name(spec_name, operation_id).removeprefix('stock-')}"


def pool_patch(pool: StockPool, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The merge patch for a change of the spec; EMPTY if nothing would differ.

    Raises:
        InvalidRequestError: the pool would become invalid.
    """
    spec = patched(pool.spec, change.get("spec", EMPTY))
    raise_if_any(pool_problems(spec))
    return EMPTY if known_fields(spec) == known_fields(pool.spec) else change


POOL_UPDATE: Final = UpdateObjectHandler(UPDATE_STOCKPOOL, StockPool, pool_patch)
"""Executes update_stockpool operations."""
POOL_DELETION: Final = DeleteObjectHandler(DELETE_STOCKPOOL, StockPool)
"""Executes delete_stockpool operations. The stock of a pool is deleted with it, claimed units are not."""


@frozen
class CreatePoolHandler:
    """Executes create_stockpool operations.

    If the process dies after the creation, the replica that takes the Operation over finds the pool by its annotations.
    """

    type: ClassVar = CREATE_STOCKPOOL

    async def run(self, lease: OperationLease) -> Outcome:
        """Create the pool.

        Raises:
            NameTakenError: another pool has the name.
            RefusedError: the API server rejected the pool.
            LeaseLostError: the pool was created, and deleted since.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        request = lease.request(CreatePool)
        made = await self._made(lease, request) or await self._create(lease.client, request, lease.operation)
        return Outcome(OperationResult(StockPool.KIND.kind, request.name, request.namespace, made.metadata.uid), made)

    async def _made(self, lease: OperationLease, request: CreatePool) -> StockPool | None:
        """The pool that an earlier attempt created."""
        if not lease.is_resumed:
            return None
        existing = await read_or_none(lease.client, StockPool, ObjectKey(request.namespace, request.name))
        if existing is not None and _identity(lease.operation).items() <= existing.metadata.annotations.items():
            return existing
        # A deletion ends this Operation before it deletes the pool. So after a deletion this raises.
        await lease.confirm()
        return None

    async def _create(self, client: Client, request: CreatePool, operation: Operation) -> StockPool:
        identity = _identity(operation)
        metadata = ObjectMeta(name=request.name, namespace=request.namespace, annotations=FrozenDict(identity))
        try:
            return await client.create(StockPool(metadata, request.spec))
        except AlreadyExistsError as error:
            existing = await read_or_none(client, StockPool, metadata.key)
            if existing is not None and identity.items() <= existing.metadata.annotations.items():
                return existing
            raise NameTakenError(
                f"pool {metadata.key} exists already and was created by another request;"
                " choose another name, or update it"
            ) from error
        except (*REFUSALS, NotFoundError) as error:
            raise refusal(f"pool {metadata.key}", error) from error


def _identity(operation: Operation) -> dict[str, str]:
    return {OPERATION_ID: operation.spec.operation_id, REQUEST_HASH: operation.spec.request_hash}


@frozen
class StockPools:
    """Creates pools on request."""

    operations: Operations
    client: Client
    namespaces: Namespaces

    async def create(
        self, operation_id: str, request: CreatePool, *, within: float = DEFAULT_WAIT_SECONDS
    ) -> WriteResult[StockPool]:
        """Create a pool. A replay returns the pool as it is now.

        Raises:
            InvalidRequestError: the request is invalid.
            OperationConflictError: the operationID was used for another request.
            NameTakenError, RefusedError: nothing was created.
            NotFinishedError: it will be created; retry with the same operationID.
            NotRunningError, KubeError: try again with the same operationID.
        """
        self._check(request)
        performed = await self.operations.perform(operation_id, CREATE_STOCKPOOL, request, within=within)
        return await write_result(self.client, StockPool, ObjectKey(request.namespace, request.name), performed)

    def _check(self, request: CreatePool) -> None:
        problems = pool_problems(request.spec)
        if not is_dns_subdomain(request.name):
            problems.append(Violation.of("name", "lower-case letters, digits, '-' and '.'", request.name))
        problems += stock_namespace_problems("namespace", request.namespace, self.namespaces)
        raise_if_any(problems)
