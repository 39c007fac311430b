"""What comes next in the deletion of a storage: nothing is deleted while a pod or a holder uses the data.

| what is left | then |
|---|---|
| a lock, or living pods that mount the volume | wait; nothing is touched |
| Jobs, their pods, the accessor | remove them, and wait until they are gone |
| the PersistentVolumeClaim of this storage | delete it by its UID, and wait until it is gone |
| the lock on a source | release it |
| a PersistentVolumeClaim that is not of this storage | leave it alone |
| nothing | remove the finalizer |

The order makes every end of the process safe: the next run finds what is left, and goes on there.
"""

from enum import Enum

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.desired.storage.claim import is_of
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim

__all__ = ["Deletion", "DeletionStep", "Remains", "next_deletion"]


class DeletionStep(Enum):
    """One step of a deletion."""

    WAIT = "wait"
    REMOVE_CHILDREN = "remove the Jobs and the accessor"
    DELETE_CLAIM = "delete the PersistentVolumeClaim"
    RELEASE_SOURCE = "release the lock on the source"
    FINISH = "remove the finalizer"


@frozen
class Remains:
    """What is left of a storage.

    Args:
        users: the living pods that mount the volume, in words, without those of the storage's own children.
        has_children: whether a Job, one of its pods or the accessor is left.
        claim: the PersistentVolumeClaim of its name.
        has_source: whether it still has the lock on the storage that it copied.
    """

    users: str = ""
    has_children: bool = False
    claim: PersistentVolumeClaim | None = None
    has_source: bool = False


@frozen
class Deletion:
    """The next step, and what the storage waits for."""

    step: DeletionStep
    message: str


def next_deletion(storage: GPUStorage, left: Remains) -> Deletion:
    """The next step of a deletion; see the table of this module."""
    lock = lock_of(storage.metadata)
    if lock is not None:
        return Deletion(DeletionStep.WAIT, f"It is deleted when {lock.holder} has released it.")
    if left.users:
        return Deletion(DeletionStep.WAIT, f"It is deleted when nothing mounts it: {left.users}.")
    if left.has_children:
        return Deletion(DeletionStep.REMOVE_CHILDREN, "Its Jobs and its accessor are being removed.")
    claim = left.claim
    if claim is not None and is_of(claim, storage):
        message = "Its PersistentVolumeClaim is being deleted."
        is_going = claim.metadata.deletion_timestamp is not None
        return Deletion(DeletionStep.WAIT if is_going else DeletionStep.DELETE_CLAIM, message)
    if left.has_source:
        return Deletion(DeletionStep.RELEASE_SOURCE, "Its source is being released.")
    return Deletion(DeletionStep.FINISH, "Its data is deleted.")
