"""Whose turn it is on a storage, its accessor's or that of who locked it: the accessor gives way. Pure.

| accessMode | who has the storage | accessor |
|---|---|---|
| ReadWriteOncePod | anybody | none: one pod can mount the volume |
| ReadWriteOnce | a unit | on the unit's node, where its pod is |
| ReadWriteOnce | a storage that copies it | none: the Job may need it on any node |
| ReadWriteMany | anybody | anywhere |
| any | none | anywhere |

A unit locks the storage first. Its reconciler then waits only where the accessor could keep the volume from it: with
ReadWriteOncePod, until the accessor's pod is gone. An accessor that was created in the moment of the lock is not seen:
then the scheduler keeps the unit's pod waiting until the accessor has ended. If the accessor's reconciler is down, a
unit waits only with ReadWriteOncePod.
"""

from gpuruntime.api.gpustorage import READ_WRITE_MANY, READ_WRITE_ONCE, READ_WRITE_ONCE_POD, GPUStorage
from gpuruntime.desired.storage.locks import lock_of

__all__ = ["followed_unit", "gives_way", "must_leave_first"]


def gives_way(storage: GPUStorage) -> str:
    """Why a storage has no accessor now: who excludes it. "" if it may have one."""
    lock = lock_of(storage.metadata)
    if lock is None or storage.spec.access_mode == READ_WRITE_MANY:
        return ""
    if storage.spec.access_mode == READ_WRITE_ONCE and lock.unit_name:
        return ""
    return lock.holder


def followed_unit(storage: GPUStorage) -> str:
    """The unit on whose node the accessor must run; "" if it can run anywhere."""
    lock = lock_of(storage.metadata)
    return lock.unit_name if lock is not None and storage.spec.access_mode == READ_WRITE_ONCE else ""


def must_leave_first(storage: GPUStorage) -> bool:
    """Whether the pod of the accessor has to be gone before a unit's pod is created."""
    return storage.spec.access_mode == READ_WRITE_ONCE_POD
