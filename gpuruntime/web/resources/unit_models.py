"""Units over REST: requests of bodies, views, filters."""

from collections.abc import Callable
from typing import Final

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.names import POOL_LABEL
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import project
from gpuruntime.api.rest.gpu_units import CreateUnitBody, UnitView, UpdateUnitBody
from gpuruntime.api.rest.objects import ListQuery
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.desired.units.security_context import profile_of
from gpuruntime.meta import (
    encode,
    freeze,
)
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.web.resources.object_models import ListFilter, deleted_view, object_fields

__all__ = ["create_request", "deleted_unit_view", "unit_filter", "unit_view", "update_request"]

_ACTIVE: Final = "instance"
_STOCK: Final = "stock"


def unit_filter(query: ListQuery, namespaces: Namespaces, *, stock: bool) -> Callable[[GPUUnit], bool]:
    """Whether a unit has this role and matches the query.

    Raises:
        ApiError: 400 for a malformed label selector.
    """
    wanted = ListFilter.of(query)
    return lambda unit: namespaces.is_stock(unit.metadata.namespace) == stock and wanted.matches(unit)


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
        lifecycle=_STOCK if is_stock else _ACTIVE,
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


def deleted_unit_view(name: str, namespace: str, uid: str | None, operation_id: str | None) -> UnitView:
    """The view of an active unit that a request created or updated, and that has been deleted since."""
    return deleted_view(UnitView, name, namespace, uid, operation_id, lifecycle=_ACTIVE)


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


def update_request(body: UpdateUnitBody, name: str, namespace: str, resource_version: str) -> UpdateObject:
    """The request to the service, for a unit at this version ("": any)."""
    given = encode(body)
    labels = {"labels": given.pop("labels") or {}} if "labels" in given else {}
    change = {"spec": given} | ({"metadata": labels} if labels else {})
    return UpdateObject(name, namespace, freeze(change), resource_version=resource_version)
