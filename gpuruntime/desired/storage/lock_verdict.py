"""The verdict on the lock of a storage: it is kept, completed with the UID of its holder, or released. Pure.

What ends a lock, and what happens if a process dies or others interfere:

    a unit is deleted                   its lock is kept until its Deployment, ReplicaSets and pods are gone
    a unit does not name the storage    its lock is kept until its Deployment is rolled out without it, and the pods
    any more                            that mount it are gone
    the API dies after it locked        the Operation is taken over and finds its own locks. While it can act, the
                                        lock is kept
    that Operation is gone, or ended    its lock is void, unless the unit that it created is there
    the API dies after it created the   the lock is completed with the unit's UID, here or by the reconciler of units
    unit
    the unit was created again with     the lock of the earlier one is kept until its pods are gone; then the new unit
    the same name                       locks by itself
    a copy ends, or its storage is      the lock on the source is released when no pod mounts it. After a failure the
    deleted                             reconciler of storages decides: a recovery may be about to copy again
    the annotations name no holder      released when no pod mounts the volume
    a pod hangs on a lost node          the lock is kept: the pod may still write. Delete the pod by force when the node
                                        is off
"""

from enum import Enum

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.desired.storage.locks import Lock, is_shared, mount_of

__all__ = ["LockVerdict", "Sight", "judge_lock", "needs_lock"]

_SUCCEEDED = "Succeeded"


class LockVerdict(Enum):
    """What to do with a lock."""

    KEEP = "keep"
    COMPLETE = "complete"
    RELEASE = "release"


@frozen
class Sight:
    """What is known about a lock.

    Args:
        holder: the object that has the holder's name now, None if there is none.
        can_operation_act: whether the Operation that locked may still create or change the holder.
        users: what mounts the volume exclusively, or can still create a pod that does; the accessor is none of them.
    """

    holder: GPUUnit | GPUStorage | None
    can_operation_act: bool = False
    users: tuple[str, ...] = ()


def needs_lock(unit: GPUUnit, storage: GPUStorage) -> bool:
    """Whether a unit names the storage in a mount that needs the lock."""
    mount = mount_of(unit, storage.metadata.name)
    return mount is not None and not is_shared(storage, mount)


def judge_lock(storage: GPUStorage, lock: Lock, sight: Sight) -> LockVerdict:
    """The verdict on the lock of a storage.

    Guarantees:
        - A lock is released only if its holder neither exists nor can come into being, or does not need it, and nothing
          uses the volume.
        - A lock is completed only for the unit that it was taken for.
        - The verdict after a completion or a release is to keep what is there: nothing is written twice.
    """
    match sight.holder:
        case GPUUnit() as unit if lock.is_held_by(unit) and needs_lock(unit, storage):
            return LockVerdict.KEEP if lock == Lock.of(unit) else LockVerdict.COMPLETE
        case GPUStorage() as copy if lock.is_held_by(copy) and _may_copy(copy, storage):
            return LockVerdict.KEEP
    return LockVerdict.KEEP if sight.can_operation_act or sight.users else LockVerdict.RELEASE


def _may_copy(copy: GPUStorage, source: GPUStorage) -> bool:
    """Whether a storage may be copying the source now, or later: a success is final, a failure is not."""
    prepare, status = copy.spec.prepare, copy.status.prepare
    is_from = prepare is not None and prepare.from_storage_name == source.metadata.name
    return is_from and (status is None or status.phase != _SUCCEEDED)
