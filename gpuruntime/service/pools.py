"""Pools on request: create, update, delete. Their stock units are created by the StockPool reconciler."""

from typing import Final

from attrs import frozen

from gpuruntime.api.namespaces import STOCK_NAMESPACE
from gpuruntime.api.operation import CREATE_STOCKPOOL, DELETE_STOCKPOOL, UPDATE_STOCKPOOL
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.meta import ObjectMeta, Struct
from gpuruntime.schema import violations
from gpuruntime.service.objects.create import CreateObjectHandler
from gpuruntime.service.objects.delete import DeleteObjectHandler
from gpuruntime.service.objects.served_kind import ServedKind
from gpuruntime.service.objects.update import UpdateObjectHandler, spec_patch
from gpuruntime.service.stock.names import batch_name

__all__ = [
    "POOLS",
    "POOL_CREATION",
    "CreatePool",
    "pool_name",
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


def _pool(request: CreatePool) -> StockPool:
    return StockPool(ObjectMeta(name=request.name, namespace=request.namespace), request.spec)


POOL_CREATION: Final = CreateObjectHandler(
    CREATE_STOCKPOOL, CreatePool, _pool, lambda request: violations(request.spec, StockPoolSpec)
)
"""Executes create_stockpool operations."""
POOLS: Final = ServedKind(
    StockPool,
    lambda namespaces: namespaces.stock,
    # A pool in a namespace of active units is never filled. It is shown, with the reason, and can be deleted.
    readable=lambda namespaces: namespaces.units,
    creation=POOL_CREATION,
    update=UpdateObjectHandler(UPDATE_STOCKPOOL, StockPool, lambda pool, change: spec_patch(pool.spec, change)),
    # The stock of a pool is deleted with it, claimed units are not.
    deletion=DeleteObjectHandler(DELETE_STOCKPOOL, StockPool),
)
"""Pools in the API."""
