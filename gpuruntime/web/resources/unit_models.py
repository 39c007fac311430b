"""Units over REST: requests of bodies, and views."""

from typing import Final

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import POOL_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import project
from gpuruntime.api.rest.gpu_units import CreateUnitBody, UnitView
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.units.security_context import profile_of
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.web.resources.object_models import object_fields

__all__ = ["ACTIVE", "STOCK", "create_request", "unit_view"]

ACTIVE: Final = "instance"
"""The lifecycle of an active unit."""
STOCK: Final = "stock"
"""The lifecycle of a stock unit."""


def unit_view(unit: GPUUnit, namespaces: Namespaces) -> UnitView:
    """The view of a unit."""
    meta, status = unit.metadata, unit.status
    is_stock = namespaces.is_stock(meta.namespace)
    source, claim = provenance_of(meta), claim_of(meta) if is_stock else None
    pool = meta.labels.get(POOL_LABEL) if source is None else source.pool
    return project(
        unit.spec,
        UnitView,
        **object_fields(unit),
        lifecycle=STOCK if is_stock else ACTIVE,
        security_profile=profile_of(unit.spec, is_stock=is_stock),
        ready_replicas=status.ready_replicas or 0,
        stages=status.stages,
        service_name=status.service_name,
        access_url=status.access_url,
        serverless_status=status.serverless,
        source_stock_name=None if source is None else source.stock.name,
        source_stock_namespace=None if source is None else source.stock.namespace,
        pool=pool or None,
        claimed_for=None if claim is None or claim.claimed_for is None else str(claim.claimed_for),
        deleting=True if meta.deletion_timestamp is not None else None,
    )


def create_request(body: CreateUnitBody, namespaces: Namespaces) -> CreateUnit:
    """The request to the service; `namespaces` are the defaults."""
    return CreateUnit(
        body.name,
        project(body, GPUUnitSpec),
        namespace=body.namespace or namespaces.default_instance,
        stock_namespace=body.stock_namespace or namespaces.default_stock,
        labels=body.labels,
        cold_start=body.cold_start,
    )
