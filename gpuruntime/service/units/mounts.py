"""Locking the storages of a unit on behalf of an Operation, before the unit names them.

::

    look every storage up ──> lock them in name order ──> create or update the unit, which names them
                                   │ one is in use, or the rest of the request is refused
                                   └──> release the locks of this Operation

All who lock do so in name order and stop at the first storage that is in use, so two requests never wait for each
other. If the process dies, the replica that takes the Operation over finds its own locks. If none takes it over, the
lock reaper releases them. Storages that any number of units can read need no lock.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.storage_mount import StorageMount
from gpuruntime.desired.storage.locks import Lock, is_shared, lock_of
from gpuruntime.kube import Client, NotFoundError
from gpuruntime.meta import ObjectKey
from gpuruntime.schema import Violation
from gpuruntime.service.errors import StorageInUseError
from gpuruntime.service.objects.admission import REFUSALS, raise_if_any, refusal
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.storage.locks import LockedByAnotherError, acquire, release_own

__all__ = ["added_mounts", "check_free", "lock_mounts", "storage_in_use", "unlock_mounts"]


def added_mounts(unit: GPUUnit, spec: GPUUnitSpec) -> tuple[StorageMount, ...]:
    """The mounts of a new spec that the unit has not, or only read-only: those that may need a lock."""
    has = {mount.name: mount.read_only for mount in unit.spec.storage_mounts}
    return tuple(mount for mount in spec.storage_mounts if has.get(mount.name) not in {False, mount.read_only})


def storage_in_use(storage: ObjectKey, lock: Lock) -> StorageInUseError:
    """The error of a request for a storage that another holder has."""
    return StorageInUseError(
        f"storage {storage} is in use by {lock.holder}: expected it to be free. It is freed when that is deleted, or "
        "does not name it any more, and its pods have ended"
    )


async def check_free(
    client: Client, namespace: str, spec: GPUUnitSpec, mounts: Iterable[StorageMount], holder: str
) -> None:
    """Return if nothing stands against locking these mounts of a spec now. It writes nothing, so a caller may poll.

    A storage that the same holder has is not in use: `lock_mounts` decides.

    Raises:
        InvalidRequestError: a storage does not exist, or is being deleted.
        StorageInUseError: another holder has one.
        KubeError: the API server is not available.
    """
    for storage in await _exclusive(client, namespace, spec, mounts):
        lock = lock_of(storage.metadata)
        if lock is not None and lock.holder != holder:
            raise storage_in_use(storage.key, lock)


async def lock_mounts(
    client: Client, namespace: str, spec: GPUUnitSpec, mounts: Iterable[StorageMount], lock: Lock, now: datetime
) -> None:
    """Lock the storages of these mounts, which are of the spec, in name order. If it raises no KubeError, all or none
    have this lock.

    Raises:
        InvalidRequestError: a storage does not exist, or is being deleted.
        LockedByAnotherError: another holder has one.
        RefusedError: the API server rejected the lock.
        KubeError: the outcome is unknown, or the API server is not available; another attempt goes on.
    """
    wanted = tuple(mounts)
    for storage in await _exclusive(client, namespace, spec, wanted):
        try:
            await acquire(client, storage, lock, now)
        except LockedByAnotherError:
            await unlock_mounts(client, namespace, wanted, lock)
            raise
        except NotFoundError:
            await unlock_mounts(client, namespace, wanted, lock)
            raise_if_any([_missing(spec, storage.metadata.name)])
        except REFUSALS as error:
            await unlock_mounts(client, namespace, wanted, lock)
            raise refusal(f"the lock of storage {storage.key}", error) from error


async def unlock_mounts(client: Client, namespace: str, mounts: Iterable[StorageMount], lock: Lock) -> None:
    """Release this very lock wherever these mounts have it, also that of an earlier attempt.

    Raises:
        KubeError: one may be left; another attempt, or the lock reaper, releases it.
    """
    for name in sorted(mount.name for mount in mounts):
        await release_own(client, ObjectKey(namespace, name), lock)


async def _exclusive(
    client: Client, namespace: str, spec: GPUUnitSpec, mounts: Iterable[StorageMount]
) -> Sequence[GPUStorage]:
    """The storages to lock, live, in name order; all of the mounts exist."""
    found = [
        (mount, await read_or_none(client, GPUStorage, ObjectKey(namespace, mount.name)))
        for mount in sorted(mounts, key=lambda mount: mount.name)
    ]
    raise_if_any(_faults(spec, found))
    return [storage for mount, storage in found if storage is not None and not is_shared(storage, mount)]


def _faults(spec: GPUUnitSpec, found: Iterable[tuple[StorageMount, GPUStorage | None]]) -> Iterator[Violation]:
    for mount, storage in found:
        if storage is None:
            yield _missing(spec, mount.name)
        elif storage.metadata.deletion_timestamp is not None:
            yield Violation.of(_path(spec, mount.name), "a storage that is not being deleted", mount.name)


def _missing(spec: GPUUnitSpec, name: str) -> Violation:
    return Violation.of(_path(spec, name), "an existing storage of the unit's namespace", name)


def _path(spec: GPUUnitSpec, name: str) -> str:
    index = next(index for index, mount in enumerate(spec.storage_mounts) if mount.name == name)
    return f"storageMounts[{index}].name"
