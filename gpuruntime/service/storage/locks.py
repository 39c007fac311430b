"""Locking a storage for one holder: a conditional write, which fails if the storage changed since it was read."""

from datetime import datetime

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.desired.storage.locks import Lock, lock_of, released
from gpuruntime.kube import Client, ConflictError, MergePatch, NotFoundError, Status
from gpuruntime.meta import ObjectKey
from gpuruntime.service.objects.conflicts import ATTEMPTS, changed_each_time

__all__ = ["LockedByAnotherError", "acquire", "release", "release_own"]


class LockedByAnotherError(Exception):
    """Another holder has the storage; `lock` is its lock."""

    def __init__(self, storage: GPUStorage, lock: Lock) -> None:
        super().__init__(f"storage {storage.key} is in use by {lock.holder}")
        self.storage = storage
        self.lock = lock


async def acquire(client: Client, storage: GPUStorage, lock: Lock, now: datetime) -> GPUStorage:
    """Lock the storage as it was read, and return it locked; one that has this very lock is returned as it is.

    A holder that exists takes over the lock that an Operation took for it, and keeps it: an Operation that wants to
    lock for the same holder changes nothing, and so cannot release it. A storage that changed meanwhile is read again,
    and decided again.

    Raises:
        LockedByAnotherError: another holder has it.
        NotFoundError: it is gone, or being deleted.
        ConflictError: it changed during each attempt.
    """
    current = storage
    for _ in range(ATTEMPTS):
        found = lock_of(current.metadata)
        if found is not None and (found == lock or _has_it_for_good(lock, found)):
            return current
        if found is not None and not _is_successor(lock, found):
            raise LockedByAnotherError(current, found)
        meta = current.metadata
        if meta.deletion_timestamp is not None:
            raise NotFoundError(Status(404, "NotFound", f"storage {current.key} is being deleted"))
        patch = MergePatch({"metadata": {"annotations": lock.annotations(now)}}).locked(meta.resource_version)
        try:
            return await client.patch(GPUStorage, meta.name, meta.namespace, patch)
        except ConflictError:
            current = await client.get(GPUStorage, meta.name, meta.namespace)
    raise changed_each_time(f"storage {storage.key}")


async def release(client: Client, storage: GPUStorage) -> None:
    """Release the lock on a storage in the version that was read; one that is free costs no request.

    Raises:
        ConflictError: the storage changed since it was read; read it again and decide again.
        NotFoundError: it is gone.
    """
    meta, lock = storage.metadata, lock_of(storage.metadata)
    if lock is None:
        return
    patch = MergePatch({"metadata": {"annotations": released(lock)}}).locked(meta.resource_version)
    await client.patch(GPUStorage, meta.name, meta.namespace, patch)


async def release_own(client: Client, key: ObjectKey, lock: Lock) -> None:
    """Release the lock on a storage if it is this very one; that of another holder, or one that was completed, stays.

    Raises:
        ConflictError: the storage changed during each attempt.
    """
    for _ in range(ATTEMPTS):
        try:
            current = await client.get(GPUStorage, key.name, key.namespace)
            if lock_of(current.metadata) == lock:
                await release(client, current)
        except ConflictError:
            continue
        except NotFoundError:
            pass
        return
    raise changed_each_time(f"storage {key}")


def _has_it_for_good(lock: Lock, found: Lock) -> bool:
    """Whether the same holder, which exists, has the lock already, without an Operation that could release it."""
    return bool(lock.uid) and (found.holder, found.uid, found.operation) == (lock.holder, lock.uid, "")


def _is_successor(lock: Lock, found: Lock) -> bool:
    """Whether a lock completes the one that is there: for the same holder, which exists by now.

    An Operation never takes over the lock of another one that is about to create a unit of the same name.
    """
    return bool(lock.uid) and lock.holder == found.holder and found.uid in {"", lock.uid}
