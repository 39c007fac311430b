"""Units as callers see them."""

from typing import Final

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit, UnitAccess, UnitStages
from gpuruntime.api.names import OPERATION_ID, POOL_LABEL
from gpuruntime.api.placement import PullSecret
from gpuruntime.api.reasons import PROGRESSING, READY_CONDITION
from gpuruntime.api.roles import Roles
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.meta.conditions import find_condition
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.structs import Struct, wire

__all__ = ["ACTIVE", "STOCK", "UnitView", "gone_unit", "phase_of_unit", "unit_view"]

ACTIVE: Final = "instance"
STOCK: Final = "stock"


@frozen
class UnitView(Struct):
    """A unit: what was asked for, and what became of it. Fields that have nothing to say are left out."""

    name: str
    """Name of the unit."""
    namespace: str
    """Its namespace."""
    lifecycle: str
    """instance: a user's. stock: capacity that waits to be claimed."""
    spec_name: str | None = None
    """Name of the flavour."""
    image: str | None = None
    """Container image."""
    cpu: int | str | None = None
    """CPUs of the unit."""
    memory: int | str | None = None
    """Memory of the unit."""
    gpu: int | None = None
    """GPUs of the unit."""
    gpu_type: str | None = None
    """Model of the GPUs."""
    template: UnitTemplate | None = None
    access: UnitAccess | None = None
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Secrets with the credentials for the image's registry."""
    labels: FrozenDict[str, str] = EMPTY
    """Labels of the unit."""
    phase: str | None = None
    """Ready, Progressing or Failed."""
    reason: str | None = None
    """Why it is in this phase, in one word."""
    message: str | None = None
    """Why it is in this phase, in a sentence."""
    ready_replicas: int | None = None
    """Pods of the unit that are ready: 0 or 1."""
    generation: int | None = None
    """How often what was asked for has changed."""
    observed_generation: int | None = None
    """The generation that the cluster was last brought in line with."""
    last_sync_time: str | None = None
    """When the status last changed."""
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
    operation_id: str | None = field(default=None, metadata=wire("operationID"))
    """The operationID of the request that created it."""
    uid: str | None = None
    """What tells it from a unit that gets the name later."""
    resource_version: str | None = None
    """The version of this state."""
    created_at: str | None = None
    """When it was created."""
    deleting: bool | None = None
    """Whether it is on its way out."""
    deleted: bool | None = None
    """Whether it is gone: what a request says that is sent again after that."""


def phase_of_unit(unit: GPUUnit) -> str:
    """The phase of a unit; one that nobody has looked at yet is on its way."""
    return unit.status.phase or PROGRESSING


def unit_view(unit: GPUUnit, roles: Roles) -> UnitView:
    """What callers see of a unit."""
    meta, spec, status = unit.metadata, unit.spec, unit.status
    is_stock = roles.is_stock(meta.namespace)
    ready = find_condition(status.conditions, READY_CONDITION)
    source, claim = provenance_of(meta), claim_of(meta) if is_stock else None
    pool = meta.labels.get(POOL_LABEL) if source is None else source.pool
    return UnitView(
        meta.name,
        meta.namespace,
        STOCK if is_stock else ACTIVE,
        spec_name=spec.spec_name,
        image=spec.image,
        cpu=spec.cpu,
        memory=spec.memory,
        gpu=spec.gpu,
        gpu_type=spec.gpu_type,
        template=spec.template,
        access=spec.access,
        image_pull_secrets=spec.image_pull_secrets,
        labels=meta.labels,
        phase=phase_of_unit(unit),
        reason=None if ready is None else ready.reason,
        message=None if ready is None else ready.message,
        ready_replicas=status.ready_replicas or 0,
        generation=meta.generation,
        observed_generation=status.observed_generation,
        last_sync_time=status.last_sync_time,
        stages=status.stages,
        service_name=status.service_name,
        access_url=status.access_url,
        source_stock_name=None if source is None else source.stock.name,
        source_stock_namespace=None if source is None else source.stock.namespace,
        pool=pool or None,
        claimed_for=None if claim is None or claim.claimed_for is None else str(claim.claimed_for),
        operation_id=meta.annotations.get(OPERATION_ID),
        uid=meta.uid,
        resource_version=meta.resource_version,
        created_at=meta.creation_timestamp,
        deleting=True if meta.deletion_timestamp is not None else None,
    )


def gone_unit(name: str, namespace: str, uid: str | None, operation_id: str | None) -> UnitView:
    """What is left of a unit that a request made or changed, and that is gone by now."""
    return UnitView(name, namespace, ACTIVE, uid=uid, operation_id=operation_id, deleted=True)
