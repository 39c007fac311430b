"""Pools as callers see them."""

from attrs import field, frozen

from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.reasons import PROGRESSING, READY_CONDITION
from gpuruntime.api.stockpool import StockPool
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta.conditions import find_condition
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.structs import Struct, wire

__all__ = ["PoolView", "gone_pool", "phase_of_pool", "pool_view"]


@frozen
class PoolView(Struct):
    """A pool: what was asked for, and what became of it. Fields that have nothing to say are left out."""

    name: str
    """Name of the pool."""
    namespace: str
    """Its namespace."""
    spec_name: str | None = None
    """Name of the flavour."""
    replicas: int | None = None
    """How many ready units it keeps beside those that were claimed."""
    image: str | None = None
    """Image of the stock units."""
    cpu: int | str | None = None
    """CPUs of each unit."""
    memory: int | str | None = None
    """Memory of each unit."""
    gpu: int | None = None
    """GPUs of each unit."""
    gpu_type: str | None = None
    """Model of the GPUs."""
    template: UnitTemplate | None = None
    """What runs inside the stock units while they wait."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Secrets with the credentials for the image's registry."""
    tolerations: tuple[UnitToleration, ...] = ()
    """Taints of nodes that the units accept."""
    node_selector: FrozenDict[str, str] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: str | None = None
    """RuntimeClass that runs the units."""
    labels: FrozenDict[str, str] = EMPTY
    """Labels of the pool."""
    available: int | None = None
    """Stock units that are ready and not claimed."""
    allocated: int | None = None
    """Active units that live on capacity of this pool."""
    phase: str | None = None
    """Ready, Progressing, Empty (scaled to zero) or Failed."""
    reason: str | None = None
    """Why it is in this phase, in one word."""
    message: str | None = None
    """Why it is in this phase, in a sentence."""
    failures: int | None = None
    """Stock units that failed one after another since the last one became ready."""
    generation: int | None = None
    """How often what was asked for has changed."""
    observed_generation: int | None = None
    """The generation that the stock was last brought in line with."""
    last_sync_time: str | None = None
    """When the status last changed."""
    operation_id: str | None = field(default=None, metadata=wire("operationID"))
    """The operationID of the request that created it."""
    uid: str | None = None
    """What tells it from a pool that gets the name later."""
    resource_version: str | None = None
    """The version of this state."""
    created_at: str | None = None
    """When it was created."""
    deleted: bool | None = None
    """Whether it is gone: what a request says that is sent again after that."""


def phase_of_pool(pool: StockPool) -> str:
    """The phase of a pool; one that nobody has looked at yet is on its way."""
    return pool.status.phase or PROGRESSING


def pool_view(pool: StockPool) -> PoolView:
    """What callers see of a pool."""
    meta, spec, status = pool.metadata, pool.spec, pool.status
    ready = find_condition(status.conditions, READY_CONDITION)
    return PoolView(
        meta.name,
        meta.namespace,
        spec_name=spec.spec_name,
        replicas=spec.replicas,
        image=spec.image,
        cpu=spec.cpu,
        memory=spec.memory,
        gpu=spec.gpu,
        gpu_type=spec.gpu_type,
        template=spec.template,
        image_pull_secrets=spec.image_pull_secrets,
        tolerations=spec.tolerations,
        node_selector=spec.node_selector,
        runtime_class_name=spec.runtime_class_name,
        labels=meta.labels,
        available=status.available or 0,
        allocated=status.allocated or 0,
        phase=phase_of_pool(pool),
        reason=None if ready is None else ready.reason,
        message=None if ready is None else ready.message,
        failures=status.failures,
        generation=meta.generation,
        observed_generation=status.observed_generation,
        last_sync_time=status.last_sync_time,
        operation_id=meta.annotations.get(OPERATION_ID),
        uid=meta.uid,
        resource_version=meta.resource_version,
        created_at=meta.creation_timestamp,
    )


def gone_pool(name: str, namespace: str, uid: str | None, operation_id: str) -> PoolView:
    """What is left of a pool that a request changed, and that is gone by now."""
    return PoolView(name, namespace, uid=uid, operation_id=operation_id, deleted=True)
