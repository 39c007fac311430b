"""Pools on request: create, update, delete. Their stock units are created by the StockPool reconciler."""

from typing import Any, Final

from attrs import frozen

from gpuruntime.api.namespaces import STOCK_NAMESPACE
from gpuruntime.api.operation import CREATE_STOCKPOOL, DELETE_STOCKPOOL, UPDATE_STOCKPOOL
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.meta import FrozenDict, ObjectMeta, Struct
from gpuruntime.schema import violations
from gpuruntime.service.objects.create import CreateObjectHandler
from gpuruntime.service.objects.delete import DeleteObjectHandler
from gpuruntime.service.objects.served_kind import ServedKind
from gpuruntime.service.objects.update import UpdateObjectHandler, spec_patch
from gpuruntime.service.stock.names import batch_name

__all__ = [
    "POOLS",
    "POOL_CREATION",
    "POOL_DELETION",
    "POOL_UPDATE",
    "CreatePool",
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
    return spec_patch(pool.spec, change)


def _pool(request: CreatePool) -> StockPool:
    return StockPool(ObjectMeta(name=request.name, namespace=request.namespace), request.spec)


POOL_CREATION: Final = CreateObjectHandler(
    CREATE_STOCKPOOL, CreatePool, _pool, lambda request: violations(request.spec, StockPoolSpec)
)
"""Executes create_stockpool operations."""
POOL_UPDATE: Final = UpdateObjectHandler(UPDATE_STOCKPOOL, StockPool, pool_patch)
"""Executes update_stockpool operations."""
POOL_DELETION: Final = DeleteObjectHandler(DELETE_STOCKPOOL, StockPool)
"""Executes delete_stockpool operations. The stock of a pool is deleted with it, claimed units are not."""
POOLS: Final = ServedKind(
    StockPool,
    lambda namespaces: namespaces.stock,
    # A pool in a namespace of active units is never filled. It is shown, with the reason, and can be deleted.
    readable=lambda namespaces: namespaces.units,
    creation=POOL_CREATION,
    update=POOL_UPDATE,
    deletion=POOL_DELETION,
)
"""Pools in the API."""
