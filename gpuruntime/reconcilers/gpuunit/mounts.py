"""The storages of a unit: its Deployment is written only while all of them can be mounted and are locked by the unit.

::

    every storage mountable? ── no ──> StorageNotReady, no write
              │ yes
    unit still there? ── no ──> no write
              │ yes
    lock in name order ── another has one? ── yes ──> StorageInUse; those with earlier names stay locked
              │ no
    Deployment there? ── no ──> pods of an earlier one? ── yes ──> StorageInUse
              │ yes                       │ no
    Deployment <──────────────────────────┘

What happens if the process dies, or others interfere:

    after some locks, before the        the next run finds them by the unit's UID, and takes the others
    Deployment
    a unit that the API created         its locks name the Operation; they become the unit's own here, so that the
                                        Operation cannot release them any more
    the lock annotations are removed    the unit locks again. Until then no other unit starts on the storage, because a
                                        pod mounts it
    another holder has the lock of a    the Deployment stays as it is, and the unit says StorageInUse
    running unit
    a storage of a running unit is      the Deployment stays as it is, and the unit says StorageNotReady
    lost, or being deleted
    the cache lags                      before a Deployment is created or changed, the unit and the locks are read live
    the garbage collector deletes the   none is created in its place, although the cache still shows the unit: its pod
    Deployment of a deleted unit        would run beside the one that is ending
    the Deployment is deleted by hand   it is created again when its ReplicaSets and pods are gone
    it is deleted and its ReplicaSet    it is created again at once, and adopts the ReplicaSet with its pod
    is orphaned

A storage in use is waited for, and the unit starts by itself when it is free.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import label_value
from gpuruntime.api.reasons import STORAGE_IN_USE, STORAGE_NOT_READY
from gpuruntime.control import QuarantinedError
from gpuruntime.desired.storage.accessor_turn import must_leave_first
from gpuruntime.desired.storage.locks import Lock, holder_name, is_shared, lock_of
from gpuruntime.desired.storage.mountable import not_mountable
from gpuruntime.kube import BadRequestError, Client, ForbiddenError, InvalidError, NotFoundError
from gpuruntime.meta import ObjectKey
from gpuruntime.reconcilers.child_sync_errors import REFUSED_SECONDS
from gpuruntime.reconcilers.gpuunit.caches import UnitCaches
from gpuruntime.reconcilers.gpuunit.status import SyncFailure
from gpuruntime.reconcilers.unit_workload import UnitWorkload
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.storage.locks import LockedByAnotherError, acquire

__all__ = ["MountFault", "UnitMounts"]

_SOON_SECONDS: Final = 1.0


@frozen
class MountFault:
    """Why a unit cannot have its storages now; in `seconds` it may, without any change that is watched."""

    failure: SyncFailure
    seconds: float | None = None


@frozen
class UnitMounts:
    """Locks the storages of units."""

    caches: UnitCaches
    now: Callable[[], datetime]

    async def fault(self, client: Client, unit: GPUUnit, *, is_live: bool, is_new: bool = False) -> MountFault | None:
        """None if all storages of a unit can be mounted and are locked by it; else why not.

        With `is_live` the unit and the locks are read from the API server. With `is_new`, the Deployment is about to be
        created: nothing of an earlier one may use the storages.

        Raises:
            KubeError: the API server is not available.
        """
        storages: list[GPUStorage] = []
        for mount in sorted(unit.spec.storage_mounts, key=lambda mount: mount.name):
            key = ObjectKey(unit.metadata.namespace, mount.name)
            try:
                storage = self.caches.storages.store.get(key)
            except QuarantinedError as error:
                return _not_ready(f"Storage {mount.name} cannot be read: {error}")
            why = not_mountable(mount.name, storage)
            if storage is None or why:
                return _not_ready(why)
            if not is_shared(storage, mount):
                storages.append(storage)
        if is_live and storages and not await _is_there(client, unit):
            return _not_ready("The unit is being deleted.")
        for storage in storages:
            found = await self._locked(client, unit, storage, is_live=is_live)
            if found is not None:
                return found
        return await _remains(client, unit, storages) if is_new and storages else None

    async def _locked(self, client: Client, unit: GPUUnit, known: GPUStorage, *, is_live: bool) -> MountFault | None:
        name = known.metadata.name
        storage = await read_or_none(client, GPUStorage, known.key) if is_live else known
        why = not_mountable(name, storage)
        if storage is None or why:
            return _not_ready(why)
        users = self.caches.users_of(storage)
        lock = lock_of(storage.metadata)
        if lock != Lock.of(unit):
            if lock is not None and lock.holder != holder_name(unit):
                return _in_use(f"Storage {name} is in use by {lock.holder}.")
            others = sorted(pod.name for pod in users if not pod.accessor and pod.unit != _label(unit))
            if others:
                return _in_use(f"Storage {name} is in use: pod {others[0]} mounts it.")
            found = await self._lock(client, unit, storage)
            if found is not None:
                return found
        leaving = sorted(pod.name for pod in users if pod.accessor)
        if leaving and must_leave_first(storage):
            return _not_ready(f"Storage {name} is still mounted by its accessor, pod {leaving[0]}, which is ending.")
        return None

    async def _lock(self, client: Client, unit: GPUUnit, storage: GPUStorage) -> MountFault | None:
        name, wanted = storage.metadata.name, Lock.of(unit)
        try:
            await acquire(client, storage, wanted, self.now())
        except LockedByAnotherError as error:
            who = "an earlier unit of this name" if error.lock.holder == wanted.holder else error.lock.holder
            return _in_use(f"Storage {name} is in use by {who}.")
        except NotFoundError:
            return _not_ready(not_mountable(name, None))
        except (BadRequestError, ForbiddenError, InvalidError) as error:
            return _not_ready(f"Storage {name} cannot be locked: {error.message or error}", REFUSED_SECONDS)
        return None


async def _is_there(client: Client, unit: GPUUnit) -> bool:
    current = await read_or_none(client, GPUUnit, unit.key)
    if current is None or current.metadata.deletion_timestamp is not None:
        return False
    return current.metadata.uid == unit.metadata.uid


async def _remains(client: Client, unit: GPUUnit, storages: Sequence[GPUStorage]) -> MountFault | None:
    """Why a Deployment cannot be created yet: an earlier one of this unit left something that uses a storage."""
    workload = await UnitWorkload.read(client, unit.key)
    if workload.deployment is not None:
        return None  # The cache lags: none is created, and an update ends the old pod first.
    left = workload.without_adopted()
    for storage in storages:
        users = left.users_of(storage)
        if users:
            # No event says when a ReplicaSet is gone.
            return _in_use(f"Storage {storage.metadata.name} is in use: {users[-1]} is ending.", _SOON_SECONDS)
    return None


def _label(unit: GPUUnit) -> str:
    return label_value(unit.metadata.name)


def _not_ready(message: str, seconds: float | None = None) -> MountFault:
    return MountFault(SyncFailure(message, STORAGE_NOT_READY), seconds)


def _in_use(message: str, seconds: float | None = None) -> MountFault:
    return MountFault(SyncFailure(message, STORAGE_IN_USE), seconds)
