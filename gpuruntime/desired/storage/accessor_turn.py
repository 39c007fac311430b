"""Whose turn it is on a storage, its accessor's or a unit's: the unit wins.

::

    access mode         no unit has the lock     a unit has the lock
    ReadWriteMany       anywhere                 anywhere
    ReadWriteOnce       anywhere                 on the node of the unit's pod, where the volume is
    ReadWriteOncePod    anywhere                 not at all: the API server lets one pod have the volume

A unit locks the storage first. Its reconciler then waits only where the accessor could keep the volume from it: with
ReadWriteOncePod, until the accessor's pod is gone. So an accessor never holds up a unit, and if the accessor's
reconciler is down, a unit waits only with ReadWriteOncePod.
"""

from enum import Enum

from gpuruntime.api.gpustorage import READ_WRITE_ONCE, READ_WRITE_ONCE_POD, GPUStorage
from gpuruntime.desired.storage.locks import lock_of

__all__ = ["AccessorPlace", "accessor_place", "must_leave_first"]


class AccessorPlace(Enum):
    """Where the accessor of a storage may run."""

    ANYWHERE = "anywhere"
    UNIT_NODE = "on the node of the unit's pod"
    NOT_AT_ALL = "not at all"


def accessor_place(storage: GPUStorage) -> AccessorPlace:
    """Where the accessor may run, by the lock on the storage."""
    lock = lock_of(storage.metadata)
    if lock is None or not lock.unit_name:
        return AccessorPlace.ANYWHERE
    match storage.spec.access_mode:
        case mode if mode == READ_WRITE_ONCE_POD:
            return AccessorPlace.NOT_AT_ALL
        case mode if mode == READ_WRITE_ONCE:
            return AccessorPlace.UNIT_NODE
    return AccessorPlace.ANYWHERE


def must_leave_first(storage: GPUStorage) -> bool:
    """Whether the pod of the accessor has to be gone before a unit's pod is created."""
    return storage.spec.access_mode == READ_WRITE_ONCE_POD
