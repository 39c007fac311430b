"""Units as callers see them."""

from typing import Final

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit, UnitAccess, UnitStages
from gpuruntime.api.names import POOL_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.security_context import profile_of
from gpuruntime.meta import wire
from gpuruntime.web.resources.object_views import ObjectView, seen_of

__all__ = ["ACTIVE", "STOCK", "UnitView", "gone_unit", "unit_view"]

ACTIVE: Final = "instance"
STOCK: Final = "stock"


@frozen(kw_only=True)
class UnitView(ObjectView):
    """A unit: what was asked for, and what became of it. Fields that have nothing to say are left out."""

    lifecycle: str
    """instance: a user's. stock: capacity that waits to be claimed."""
    access: UnitAccess | None = None
    security_profile: str | None = None
    """Baseline or Restricted: what the pod may do. Stock is always restricted."""
    ready_replicas: int | None = None
    """Pods of the unit that are ready: 0 or 1."""
    stages: UnitStages | None = None
    """When the current pod was scheduled, started and ready."""
    service_name: str | None = None
    """Name of the Service in front of the unit; none for stock."""
    access_url: str | None = field(default=None, metadata=wire("accessURL"))
    """URL of the unit inside the cluster; none for stock."""
    source_stock_name: str | None = None
    """Name of the stock unit whose capacity it took over."""
    source_stock_namespace: str | None = None
    """Namespace of that stock unit."""
    pool: str | None = None
    """The pool that supplied the capacity."""
    claimed_for: str | None = None
    """The active unit that a stock unit is being handed to."""
    deleting: bool | None = None
    """Whether it is on its way out."""


def unit_view(unit: GPUUnit, namespaces: Namespaces) -> UnitView:
    """What callers see of a unit."""
    meta, status = unit.metadata, unit.status
    is_stock = namespaces.is_stock(meta.namespace)
    source, claim = provenance_of(meta), claim_of(meta) if is_stock else None
    pool = meta.labels.get(POOL_LABEL) if source is None else source.pool
    return UnitView(
        **seen_of(unit),
        lifecycle=STOCK if is_stock else ACTIVE,
        access=unit.spec.access,
        security_profile=profile_of(unit.spec, is_stock=is_stock),
        ready_replicas=status.ready_replicas or 0,
        stages=status.stages,
        service_name=status.service_name,
        access_url=status.access_url,
        source_stock_name=None if source is None else source.stock.name,
        source_stock_namespace=None if source is None else source.stock.namespace,
        pool=pool or None,
        claimed_for=None if claim is None or claim.claimed_for is None else str(claim.claimed_for),
        deleting=True if meta.deletion_timestamp is not None else None,
    )


def gone_unit(name: str, namespace: str, uid: str | None, operation_id: str | None) -> UnitView:
    """What is left of a unit that a request made or changed, and that is gone by now."""
    return UnitView(name=name, namespace=namespace, lifecycle=ACTIVE, uid=uid, operation_id=operation_id, deleted=True)
