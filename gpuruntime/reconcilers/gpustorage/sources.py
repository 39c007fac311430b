"""The lock that a storage has on the one that it copies."""

from datetime import datetime

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.desired.storage.locks import Lock, lock_of
from gpuruntime.kube import Client, NotFoundError
from gpuruntime.service.storage.locks import LockedByAnotherError, acquire, release

__all__ = ["has_source", "lock_source", "release_source"]


async def lock_source(client: Client, storage: GPUStorage, source: GPUStorage, now: datetime) -> str:
    """Lock the source for a storage; returns why that is not possible now, "" if it is locked."""
    try:
        await acquire(client, source, Lock.of(storage), now)
    except LockedByAnotherError as error:
        return f"the source, storage {source.metadata.name}, is in use by {error.lock.holder}"
    except NotFoundError:
        return f"the source, storage {source.metadata.name}, does not exist; create it"
    return ""


def has_source(storage: GPUStorage, source: GPUStorage | None) -> bool:
    """Whether a storage has the lock on its source."""
    lock = None if source is None else lock_of(source.metadata)
    return lock is not None and lock.is_held_by(storage)


async def release_source(client: Client, storage: GPUStorage, source: GPUStorage | None) -> bool:
    """Release the lock of a storage on its source, and no other lock; returns whether there was one.

    Raises:
        ConflictError: the source changed since it was read.
    """
    if source is None or not has_source(storage, source):
        return False
    try:
        await release(client, source)
    except NotFoundError:
        return False
    return True
