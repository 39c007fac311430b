"""What callers see of units and of pools alike."""

from typing import Any

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.placement import PullSecret
from gpuruntime.api.reasons import PROGRESSING, READY_CONDITION
from gpuruntime.api.stockpool import StockPool
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import EMPTY, FrozenDict, Struct, find_condition, wire

__all__ = ["ObjectView", "phase_of", "seen_of"]


@frozen(kw_only=True)
class ObjectView(Struct):
    """What was asked for, and what became of it. Fields that have nothing to say are left out."""

    name: str
    """Its name."""
    namespace: str
    """Its namespace."""
    spec_name: str | None = None
    """Name of the flavour."""
    image: str | None = None
    """Container image."""
    cpu: int | str | None = None
    """CPUs of a unit."""
    memory: int | str | None = None
    """Memory of a unit."""
    gpu: int | None = None
    """GPUs of a unit."""
    gpu_type: str | None = None
    """Model of the GPUs."""
    template: UnitTemplate | None = None
    """What runs inside."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Secrets with the credentials for the image's registry."""
    labels: FrozenDict[str, str] = EMPTY
    """Its labels."""
    phase: str | None = None
    """Ready, Progressing or Failed; a pool that is scaled to zero is Empty."""
    reason: str | None = None
    """Why it is in this phase, in one word."""
    message: str | None = None
    """Why it is in this phase, in a sentence."""
    generation: int | None = None
    """How often what was asked for has changed."""
    observed_generation: int | None = None
    """The generation that the cluster was last brought in line with."""
    last_sync_time: str | None = None
    """When the status last changed."""
    operation_id: str | None = field(default=None, metadata=wire("operationID"))
    """The operationID of the request that created it."""
    uid: str | None = None
    """What tells it from another one that gets the name later."""
    resource_version: str | None = None
    """The version of this state."""
    created_at: str | None = None
    """When it was created."""
    deleted: bool | None = None
    """Whether it is gone: what a request says that is sent again after that."""


def phase_of(seen: GPUUnit | StockPool) -> str:
    """Its phase; what nobody has looked at yet is on its way."""
    return seen.status.phase or PROGRESSING


def seen_of(seen: GPUUnit | StockPool) -> dict[str, Any]:
    """The fields of its view that both kinds have."""
    meta, spec, status = seen.metadata, seen.spec, seen.status
    ready = find_condition(status.conditions, READY_CONDITION)
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "spec_name": spec.spec_name,
        "image": spec.image,
        "cpu": spec.cpu,
        "memory": spec.memory,
        "gpu": spec.gpu,
        "gpu_type": spec.gpu_type,
        "template": spec.template,
        "image_pull_secrets": spec.image_pull_secrets,
        "labels": meta.labels,
        "phase": phase_of(seen),
        "reason": None if ready is None else ready.reason,
        "message": None if ready is None else ready.message,
        "generation": meta.generation,
        "observed_generation": status.observed_generation,
        "last_sync_time": status.last_sync_time,
        "operation_id": meta.annotations.get(OPERATION_ID),
        "uid": meta.uid,
        "resource_version": meta.resource_version,
        "created_at": meta.creation_timestamp,
    }
