"""The lock on a storage: who has it exclusively, as stored in the storage's annotations.

A lock is one conditional write, so of two that want it one wins. The holder is a unit, or a storage that copies it. The
API locks for a unit that it is about to create: such a lock names the Operation, and gets the unit's UID when the
unit exists. A lock whose holder does not exist, or does not name the storage, is void once no Operation can create the
holder and no pod uses the volume.
"""

from datetime import datetime
from typing import Final

from attrs import frozen

from gpuruntime.api.gpustorage import READ_WRITE_MANY, GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import (
    ATTACHED_AT,
    ATTACHED_BY,
    ATTACHED_BY_UID,
    ATTACHED_TO,
    ATTACHED_UID,
    CLAIM_ID,
    LAST_HOLDER,
)
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.meta import ObjectMeta, TypedObject, format_seconds

__all__ = ["LOCK_ANNOTATIONS", "Lock", "holder_name", "is_shared", "lock_of", "mount_of", "released"]

LOCK_ANNOTATIONS: Final = (ATTACHED_TO, ATTACHED_UID, ATTACHED_BY, ATTACHED_BY_UID, ATTACHED_AT)
"""The annotations that a lock sets and a release removes."""


@frozen
class Lock:
    """An exclusive lock for `holder`, such as gpuunits/demo.

    Args:
        uid: the holder's UID, "" while an Operation is about to create it.
        operation, operation_uid: the Operation that locked; "" if a reconciler did.
    """

    holder: str
    uid: str = ""
    operation: str = ""
    operation_uid: str = ""

    @classmethod
    def of(cls, holder: TypedObject) -> "Lock":
        """The lock of an object that exists."""
        return cls(holder_name(holder), holder.metadata.uid)

    @property
    def unit_name(self) -> str:
        """The name of the unit that has the lock; "" if a storage has it."""
        plural, _, name = self.holder.partition("/")
        return name if plural == GPUUnit.KIND.plural else ""

    @property
    def storage_name(self) -> str:
        """The name of the storage that copies from this one; "" if a unit has the lock."""
        plural, _, name = self.holder.partition("/")
        return name if plural == GPUStorage.KIND.plural else ""

    def is_held_by(self, candidate: TypedObject) -> bool:
        """Whether this very object has the lock: by its UID, or by the Operation that created it."""
        if self.holder != holder_name(candidate):
            return False
        if self.uid:
            return self.uid == candidate.metadata.uid
        made_by = candidate.metadata.annotations.get(CLAIM_ID, "")
        return bool(made_by) and made_by == self.operation_uid

    def annotations(self, now: datetime) -> dict[str, str | None]:
        """The annotations of the lock, as a merge patch: it replaces every earlier lock."""
        return {
            ATTACHED_TO: self.holder,
            ATTACHED_UID: self.uid or None,
            ATTACHED_BY: self.operation or None,
            ATTACHED_BY_UID: self.operation_uid or None,
            ATTACHED_AT: format_seconds(now),
        }


def holder_name(holder: TypedObject) -> str:
    """The name of a holder in a lock."""
    return f"{holder.KIND.plural}/{holder.metadata.name}"


def lock_of(metadata: ObjectMeta) -> Lock | None:
    """The lock on a storage, None if it is free."""
    annotations = metadata.annotations
    if ATTACHED_TO not in annotations:
        return None
    texts = (annotations.get(name, "") for name in (ATTACHED_UID, ATTACHED_BY, ATTACHED_BY_UID))
    return Lock(annotations[ATTACHED_TO], *texts)


def released(lock: Lock) -> dict[str, str | None]:
    """The annotations of a release, as a merge patch.

    It names the lock, so that the releases of two locks differ: the hot-loop guard holds back the same write only.
    """
    return {**dict.fromkeys(LOCK_ANNOTATIONS), LAST_HOLDER: f"{lock.holder} {lock.uid or lock.operation_uid}".rstrip()}


def is_shared(storage: GPUStorage, mount: StorageMount) -> bool:
    """Whether a mount needs no lock: read-only, of a storage that any number of nodes can mount."""
    return mount.read_only and storage.spec.access_mode == READ_WRITE_MANY


def mount_of(unit: GPUUnit, storage: str) -> StorageMount | None:
    """How a unit mounts a storage of its namespace, None if it does not."""
    return next((mount for mount in unit.spec.storage_mounts if mount.name == storage), None)
