"""The PersistentVolumeClaim of a storage: what a new one is, whose an existing one is, and what is mended on it.

It has no owner reference, because data must not go when a record is lost: the annotation with the storage's UID decides
whose it is. Binder, provisioner and resizer write to it as well, so only our own fields are ever patched.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageStatus
from gpuruntime.api.names import (
    MANAGED_BY,
    MANAGED_BY_LABEL,
    OWNER,
    OWNER_UID,
    PREPARE_STARTED,
    PREPARED,
    RECOVERY_NONCE,
    STORAGE_LABEL,
)
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.desired.storage.marks import CLONE, Marks, Started, digest_of
from gpuruntime.desired.storage.preparation import SUCCEEDED, Volume
from gpuruntime.desired.storage.rendering import StorageClassFacts, StorageRendering
from gpuruntime.kube.builtin.volumes import (
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    VolumeDataSource,
    VolumeResources,
)
from gpuruntime.meta import FrozenDict, ObjectMeta

__all__ = [
    "STORAGE",
    "ClaimFate",
    "VolumeState",
    "adoption",
    "can_clone",
    "capacity_of",
    "claim_fate",
    "had_data",
    "is_bound",
    "is_of",
    "mending",
    "new_claim",
    "owner_text",
    "volume_state",
    "wants_clone",
]

STORAGE: Final = "storage"
"""The name of the size among the resources of a PersistentVolumeClaim."""


class ClaimFate(Enum):
    """What is done with the PersistentVolumeClaim of a storage's name."""

    CREATE = "there is none, and there never was any data"
    LOST = "it is gone, or being deleted, and with it the data"
    GOING = "an earlier one is being deleted"
    OWN = "it is of this storage"
    ADOPT = "the storage names its UID"
    FOREIGN = "it is not of this storage"


def owner_text(storage: GPUStorage) -> str:
    """The value of the annotation `OWNER` on the children of a storage."""
    kind = storage.KIND
    return f"{kind.plural}.{kind.group}/{storage.metadata.name}"


def is_of(claim: PersistentVolumeClaim, storage: GPUStorage) -> bool:
    """Whether a PersistentVolumeClaim was made for, or adopted by, this very storage."""
    return claim.metadata.annotations.get(OWNER_UID) == storage.metadata.uid


def claim_fate(storage: GPUStorage, claim: PersistentVolumeClaim | None) -> ClaimFate:
    """What to do with the PersistentVolumeClaim of this name, None if there is none.

    Guarantees: one that is not of this storage is touched only if the storage names its UID; and an empty volume never
    takes the place of one that had data.
    """
    if claim is None:
        return ClaimFate.LOST if had_data(storage) else ClaimFate.CREATE
    is_going = claim.metadata.deletion_timestamp is not None
    if is_of(claim, storage):
        if not is_going:
            return ClaimFate.OWN
        return ClaimFate.LOST if had_data(storage) or is_bound(claim) else ClaimFate.GOING
    if is_going:
        return ClaimFate.LOST if had_data(storage) else ClaimFate.GOING
    return ClaimFate.ADOPT if storage.spec.adopt_claim_uid == claim.metadata.uid else ClaimFate.FOREIGN


def had_data(storage: GPUStorage) -> bool:
    """Whether the volume of a storage was bound or prepared, or may have been: then its data is not made anew.

    A late-binding volume may be bound, and written to, before a status says so: it counts while a unit mounts it.
    """
    status = storage.status
    is_prepared = status.prepare is not None and status.prepare.phase == SUCCEEDED
    is_mounted = status.claim_name is not None and (lock_of(storage.metadata) is not None or bool(status.mounted_by))
    return status.capacity is not None or is_prepared or (is_mounted and _was_ready(status))


def wants_clone(storage: GPUStorage, rendering: StorageRendering, known: StorageClassFacts | None) -> bool:
    """Whether the class of a new storage, `known`, can clone the volume of its source.

    A late-binding class does not: nothing would tell when the clone is complete.
    """
    prepare, name = storage.spec.prepare, rendering.class_name(storage.spec.storage_class_name)
    is_copy = prepare is not None and prepare.from_storage_name is not None
    return is_copy and name in rendering.clone_classes and known is not None and not known.is_late_binding


def can_clone(storage: GPUStorage, rendering: StorageRendering, source: PersistentVolumeClaim | None) -> bool:
    """Whether the volume of the source can be cloned: it is bound, and of the same class. Else a Job copies it."""
    name = rendering.class_name(storage.spec.storage_class_name)
    return source is not None and is_bound(source) and source.spec.storage_class_name == name


def new_claim(storage: GPUStorage, rendering: StorageRendering, *, is_clone: bool = False) -> PersistentVolumeClaim:
    """The PersistentVolumeClaim of a new storage. A clone has its started mark from the beginning."""
    meta, spec, prepare = storage.metadata, storage.spec, storage.spec.prepare
    annotations = {OWNER: owner_text(storage), OWNER_UID: meta.uid}
    source = None
    if is_clone and prepare is not None and prepare.from_storage_name is not None:
        source = VolumeDataSource(PersistentVolumeClaim.KIND.kind, prepare.from_storage_name)
        mark = Started(digest_of(prepare), 1, CLONE, meta.annotations.get(RECOVERY_NONCE, ""))
        annotations[PREPARE_STARTED] = str(mark)
    return PersistentVolumeClaim(
        ObjectMeta(
            name=meta.name, namespace=meta.namespace, labels=_labels(storage), annotations=FrozenDict(annotations)
        ),
        PersistentVolumeClaimSpec(
            access_modes=(spec.access_mode,),
            resources=VolumeResources(requests=FrozenDict({STORAGE: spec.size})),
            storage_class_name=rendering.class_name(spec.storage_class_name),
            data_source=source,
            volume_attributes_class_name=spec.volume_attributes_class_name,
        ),
    )


def adoption(storage: GPUStorage, claim: PersistentVolumeClaim) -> dict[str, Any]:
    """The metadata, as a merge patch, by which a storage takes over a PersistentVolumeClaim with its data.

    Its data counts as prepared, unless an attempt to prepare it was under way.
    """
    prepare, marks = storage.spec.prepare, Marks.of(claim.metadata.annotations)
    patch: dict[str, Any] = {
        "labels": dict(_labels(storage)),
        "annotations": {OWNER: owner_text(storage), OWNER_UID: storage.metadata.uid},
    }
    if prepare is not None and marks.started is None and not marks.prepared:
        patch["annotations"][PREPARED] = digest_of(prepare)
    if claim.metadata.owner_references:
        patch["ownerReferences"] = None
    return patch


def mending(storage: GPUStorage, claim: PersistentVolumeClaim) -> dict[str, Any]:
    """The metadata, as a merge patch, that another client changed or removed; empty if there is nothing to mend.

    A prepared mark that was removed is written again if the status still knows of it: the volume is not filled twice.
    """
    meta, prepare = claim.metadata, storage.spec.prepare
    annotations = {OWNER: owner_text(storage)}
    known = storage.status.prepare
    if prepare is not None and known is not None and known.phase == SUCCEEDED and PREPARED not in meta.annotations:
        annotations[PREPARED] = known.observed_digest or digest_of(prepare)
    changed = {
        "labels": _missing(_labels(storage), meta.labels),
        "annotations": _missing(annotations, meta.annotations),
    }
    patch: dict[str, Any] = {name: entries for name, entries in changed.items() if entries}
    if meta.owner_references:
        # The garbage collector would delete the data with an owner.
        patch["ownerReferences"] = None
    return patch


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return claim.status.phase == "Bound"


def capacity_of(claim: PersistentVolumeClaim) -> int | str | None:
    """The capacity of the volume, None while it is not bound."""
    return claim.status.capacity.get(STORAGE) if is_bound(claim) else None


@frozen
class VolumeState:
    """Whether the volume is bound, and if not, why; `is_lost` if it never will be again."""

    volume: Volume
    message: str = ""
    is_lost: bool = False


def volume_state(claim: PersistentVolumeClaim, known: StorageClassFacts | None) -> VolumeState:
    """The state of a volume; `known` is the class of the PersistentVolumeClaim, None if there is none."""
    if is_bound(claim):
        return VolumeState("bound")
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name or "of the PersistentVolumeClaim"
        return VolumeState("unbound", f"the PersistentVolume {volume} is gone", is_lost=True)
    if known is not None and known.is_late_binding and not claim.spec.volume_name:
        return VolumeState("late", f"StorageClass {known.name} makes it for the first pod that uses it")
    name = claim.spec.storage_class_name
    if name and known is None and not claim.spec.volume_name:
        return VolumeState("unbound", f"StorageClass {name} does not exist; create it, or a PersistentVolume of it")
    if not name and not claim.spec.volume_name:
        return VolumeState("unbound", "the cluster has no default StorageClass; set spec.storageClassName")
    return VolumeState("unbound", f"StorageClass {name or '(none)'} has not made it yet")


def _was_ready(status: GPUStorageStatus) -> bool:
    return status.phase == "Ready"


def _labels(storage: GPUStorage) -> FrozenDict[str, str]:
    return FrozenDict({MANAGED_BY_LABEL: MANAGED_BY, STORAGE_LABEL: storage.metadata.name})


def _missing(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if found.get(name) != value}
