"""The status of a storage, computed from what a run has found."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from attrs import evolve, frozen

from gpuruntime.api.gpustorage import AccessorStatus, GPUStorage, GPUStorageStatus, PrepareStatus, ResizeStatus
from gpuruntime.api.reasons import (
    ACCESSOR_CONDITION,
    ACCESSOR_DISABLED,
    ACCESSOR_PENDING,
    ACCESSOR_READY,
    CLAIM_LOST,
    PREPARE_FAILED,
    PREPARE_NOT_REQUESTED,
    PREPARE_PENDING,
    PREPARE_RUNNING,
    PREPARED_CONDITION,
    PREPARED_REASON,
    READY_CONDITION,
    STORAGE_PENDING,
    STORAGE_READY,
    WAITS_FOR_FIRST_CONSUMER,
    phase_of,
)
from gpuruntime.desired.storage.claim import VolumeState, capacity_of
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.desired.storage.marks import CLONE, Marks, digest_of
from gpuruntime.desired.storage.preparation import FAILED, NOT_REQUESTED, PENDING, RUNNING, SUCCEEDED, Preparation
from gpuruntime.desired.storage.prepare_job import job_name
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim
from gpuruntime.meta import Condition, find_condition, format_seconds, set_condition

__all__ = ["Obstacle", "StorageFindings", "is_mountable", "storage_status", "transition"]

_READY: Final = "The storage can be mounted."
_ACCESSOR: Final[Mapping[str, tuple[str, str]]] = {
    "Ready": (ACCESSOR_READY, "The files can be read through the access gateway."),
    "Disabled": (ACCESSOR_DISABLED, "The accessor is not enabled."),
    "Failed": (ACCESSOR_PENDING, "The accessor failed."),
    "Pending": (ACCESSOR_PENDING, "The accessor is not ready, or gives way to a unit."),
}
_PREPARE_REASONS: Final = {
    SUCCEEDED: PREPARED_REASON,
    RUNNING: PREPARE_RUNNING,
    FAILED: PREPARE_FAILED,
}


@frozen
class Obstacle:
    """Why the storage cannot be mounted, whatever its volume and its preparation say: a reason, and a sentence.

    `is_applied` says whether the spec of this generation was looked at nevertheless.
    """

    reason: str
    message: str
    is_applied: bool = True


@frozen
class StorageFindings:
    """A storage as a run left it.

    Args:
        claim: its own PersistentVolumeClaim, None if it has none.
        volume: the state of its volume, None without one.
        preparation: None if none is requested, or if it was not looked at.
        mounted_by: the units that name it, sorted.
        resize: the progress of a growth.
        accessor: the state of the accessor, None if it is not enabled.
        obstacle: what makes all this irrelevant.
    """

    claim: PersistentVolumeClaim | None = None
    volume: VolumeState | None = None
    preparation: Preparation | None = None
    mounted_by: tuple[str, ...] = ()
    resize: ResizeStatus | None = None
    accessor: AccessorStatus | None = None
    obstacle: Obstacle | None = None


def storage_status(storage: GPUStorage, found: StorageFindings, now: datetime) -> GPUStorageStatus:
    """The status of a storage.

    Guarantees:
        - Ready is true exactly if the storage can be mounted: its volume is bound or waits for its first consumer, its
          preparation succeeded, and nothing is lost or being deleted.
        - What an obstacle hides keeps its last value: capacity and progress are not forgotten.
        - If nothing changed, the result is the present status, times included.
    """
    before, generation = storage.status, storage.metadata.generation
    lock, obstacle = lock_of(storage.metadata), found.obstacle
    ready = evolve(_ready(found), observed_generation=generation)
    conditions = set_condition(before.conditions, ready, now)
    prepare = _prepare(storage, found)
    for condition in (_prepared(storage, found, prepare), _accessor(found)):
        conditions = set_condition(conditions, evolve(condition, observed_generation=generation), now)
    claim = found.claim
    after = evolve(
        before,
        phase=phase_of(ready.reason),
        claim_name=before.claim_name if claim is None else claim.metadata.name,
        # A volume that was bound once had data, which a later run has to know.
        capacity=(None if claim is None else capacity_of(claim)) or before.capacity,
        attached_to=None if lock is None else lock.holder,
        mounted_by=found.mounted_by,
        prepare=prepare,
        resize=found.resize,
        accessor=found.accessor or AccessorStatus("Disabled"),
        observed_generation=generation if obstacle is None or obstacle.is_applied else before.observed_generation,
        conditions=conditions,
    )
    return before if after == before else evolve(after, last_sync_time=format_seconds(now))


def is_mountable(found: StorageFindings) -> bool:
    """Whether the storage can be mounted."""
    return _ready(found).status == "True"


def transition(before: GPUStorageStatus, after: GPUStorageStatus) -> Condition | None:
    """The new Ready condition if it has another status or another reason than before."""
    old, new = (find_condition(status.conditions, READY_CONDITION) for status in (before, after))
    if new is None or (old is not None and (old.status, old.reason) == (new.status, new.reason)):
        return None
    return new


def _ready(found: StorageFindings) -> Condition:
    obstacle, preparation, volume = found.obstacle, found.preparation, found.volume
    if obstacle is not None:
        return Condition(READY_CONDITION, "False", obstacle.reason, obstacle.message)
    if volume is not None and volume.is_lost:
        return Condition(READY_CONDITION, "False", CLAIM_LOST, f"{volume.message}; the data cannot be reached.")
    if preparation is not None and preparation.phase != SUCCEEDED:
        return Condition(READY_CONDITION, "False", preparation.reason, preparation.message)
    if volume is None or volume.volume == "unbound":
        words = "it is being created" if volume is None else volume.message
        return Condition(READY_CONDITION, "False", STORAGE_PENDING, f"The volume is not bound: {words}.")
    if volume.volume == "late":
        message = f"The storage can be mounted; {volume.message}."
        return Condition(READY_CONDITION, "True", WAITS_FOR_FIRST_CONSUMER, message)
    return Condition(READY_CONDITION, "True", STORAGE_READY, _READY)


def _prepare(storage: GPUStorage, found: StorageFindings) -> PrepareStatus:
    """The progress of the preparation; the last known one if this run did not look at it."""
    wanted, preparation = storage.spec.prepare, found.preparation
    if wanted is None:
        return PrepareStatus(NOT_REQUESTED)
    if preparation is None:
        return storage.status.prepare or PrepareStatus(PENDING, observed_digest=digest_of(wanted), attempts=0)
    attempts = preparation.attempts
    started = Marks.of({} if found.claim is None else found.claim.metadata.annotations).started
    has_job = attempts > 0 and (started is None or started.job_uid != CLONE)
    return PrepareStatus(
        phase=preparation.phase,
        job_name=job_name(storage, wanted, attempts) if has_job else None,
        observed_digest=digest_of(wanted),
        attempts=attempts,
        recovery_phase=preparation.recovery,
        recovery_nonce=(started.nonce or None) if started is not None else None,
        message=preparation.message or None,
    )


def _prepared(storage: GPUStorage, found: StorageFindings, prepare: PrepareStatus) -> Condition:
    if storage.spec.prepare is None:
        return Condition(PREPARED_CONDITION, "True", PREPARE_NOT_REQUESTED, "Nothing is to be prepared.")
    if found.preparation is not None:
        reason, message = found.preparation.reason, found.preparation.message
    else:
        reason, message = _PREPARE_REASONS.get(prepare.phase or "", PREPARE_PENDING), prepare.message or ""
    return Condition(PREPARED_CONDITION, "True" if reason == PREPARED_REASON else "False", reason, message)


def _accessor(found: StorageFindings) -> Condition:
    phase = "Disabled" if found.accessor is None else found.accessor.phase or "Pending"
    reason, message = _ACCESSOR.get(phase, _ACCESSOR["Pending"])
    if found.accessor is not None and found.accessor.message:
        message = found.accessor.message
    return Condition(ACCESSOR_CONDITION, "True" if reason == ACCESSOR_READY else "False", reason, message)
