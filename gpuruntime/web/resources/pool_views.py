"""Pools as callers see them."""

from attrs import frozen

from gpuruntime.api.placement import UnitToleration
from gpuruntime.api.stockpool import StockPool
from gpuruntime.meta import EMPTY, FrozenDict
from gpuruntime.web.resources.object_views import ObjectView, seen_of

__all__ = ["PoolView", "gone_pool", "pool_view"]


@frozen(kw_only=True)
class PoolView(ObjectView):
    """A pool: what was asked for, and what became of it. Fields that have nothing to say are left out."""

    replicas: int | None = None
    """How many ready units it keeps beside those that were claimed."""
    tolerations: tuple[UnitToleration, ...] = ()
    """Taints of nodes that the units accept."""
    node_selector: FrozenDict[str, str] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: str | None = None
    """RuntimeClass that runs the units."""
    available: int | None = None
    """Stock units that are ready and not claimed."""
    allocated: int | None = None
    """Active units that live on capacity of this pool."""
    failures: int | None = None
    """Stock units that failed one after another since the last one became ready."""


def pool_view(pool: StockPool) -> PoolView:
    """What callers see of a pool."""
    spec, status = pool.spec, pool.status
    return PoolView(
        **seen_of(pool),
        replicas=spec.replicas,
        tolerations=spec.tolerations,
        node_selector=spec.node_selector,
        runtime_class_name=spec.runtime_class_name,
        available=status.available or 0,
        allocated=status.allocated or 0,
        failures=status.failures,
    )


def gone_pool(name: str, namespace: str, uid: str | None, operation_id: str) -> PoolView:
    """What is left of a pool that a request changed, and that is gone by now."""
    return PoolView(name=name, namespace=namespace, uid=uid, operation_id=operation_id, deleted=True)
