"""Storages, their PersistentVolumeClaims and Jobs as values."""

from datetime import UTC, datetime
from typing import Any

from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, GPUStorageStatus, StoragePrepare
from gpuruntime.desired.storage.claim import new_claim
from gpuruntime.desired.storage.rendering import StorageClassFacts, StorageRendering
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim, PersistentVolumeClaimStatus
from gpuruntime.meta import Condition, ConditionStatus, FrozenDict, ObjectMeta

__all__ = ["COPY", "EXPANDABLE", "FILL", "NOW", "RENDERING", "claim_of", "is_ready", "storage"]

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
FILL = StoragePrepare(from_image="fill:1", args=("fill",))
COPY = StoragePrepare(from_storage_name="base")
EXPANDABLE = StorageClassFacts("fast", is_expandable=True)
RENDERING = StorageRendering(default_class="fast", clone_classes=frozenset({"fast"}))


def storage(
    prepare: StoragePrepare | None = None,
    status: GPUStorageStatus | None = None,
    *,
    name: str = "data",
    annotations: dict[str, str] | None = None,
    is_going: bool = False,
    **spec: Any,
) -> GPUStorage:
    """A storage of 1Gi."""
    meta = ObjectMeta(
        name=name,
        namespace="team",
        uid=f"uid-of-{name}",
        generation=1,
        resource_version="7",
        annotations=FrozenDict(annotations or {}),
        deletion_timestamp="2026-01-02T03:04:05Z" if is_going else None,
    )
    return GPUStorage(meta, GPUStorageSpec(**{"size": "1Gi", "prepare": prepare, **spec}), status or GPUStorageStatus())


def is_ready(of: GPUStorage, status: ConditionStatus = "True", reason: str = "StorageReady") -> GPUStorage:
    """A storage with this Ready condition."""
    return evolve(of, status=evolve(of.status, conditions=(Condition("Ready", status, reason, "words"),)))


def claim_of(
    of: GPUStorage,
    *,
    phase: str = "Bound",
    capacity: str = "1Gi",
    annotations: dict[str, str] | None = None,
    is_going: bool = False,
    **status: Any,
) -> PersistentVolumeClaim:
    """The PersistentVolumeClaim of a storage as it is on the server."""
    made = new_claim(of, RENDERING)
    meta = evolve(
        made.metadata,
        uid="uid-of-claim",
        resource_version="9",
        annotations=made.metadata.annotations | (annotations or {}),
        deletion_timestamp="2026-01-02T03:04:05Z" if is_going else None,
    )
    held: FrozenDict[str, int | str] = FrozenDict({"storage": capacity} if phase == "Bound" else {})
    return evolve(made, metadata=meta, status=PersistentVolumeClaimStatus(phase=phase, capacity=held, **status))
