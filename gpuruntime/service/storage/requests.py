"""Storages on request: create, update, delete. A recovery is in `recovery`.

A deletion and a mount race by conditional writes on the storage: a mount locks it, a deletion names the version whose
lock was checked. The first wins: the deletion of a storage that was locked meanwhile raises StorageInUseError, and a
storage that is being deleted cannot be locked. What was deleted stays visible until its volume is gone.
"""

from collections.abc import Iterator
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import INSTANCE_NAMESPACE
from gpuruntime.api.operation import CREATE_GPU_STORAGE, DELETE_GPU_STORAGE, UPDATE_GPU_STORAGE
from gpuruntime.desired.storage.locks import lock_of, mount_of
from gpuruntime.kube import Client
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, ObjectMeta, Struct, known_fields, parse_quantity
from gpuruntime.schema import Violation, violations
from gpuruntime.service.errors import StorageInUseError
from gpuruntime.service.objects.admission import raise_if_any
from gpuruntime.service.objects.create import CreateObjectHandler
from gpuruntime.service.objects.delete import DeleteObjectHandler
from gpuruntime.service.objects.served_kind import ServedKind
from gpuruntime.service.objects.update import UpdateObjectHandler, patched
from gpuruntime.service.reads.reader import read_or_none
from gpuruntime.service.storage.recovery import STORAGE_RECOVERY

__all__ = ["STORAGES", "STORAGE_CREATION", "CreateStorage", "ensure_unused", "storage_patch"]

_MOST_NAMED: Final = 5


@frozen
class CreateStorage(Struct):
    """Create a storage."""

    name: str
    spec: GPUStorageSpec
    namespace: str = INSTANCE_NAMESPACE


def storage_patch(storage: GPUStorage, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The merge patch for a change of the spec; EMPTY if nothing would differ.

    Raises:
        InvalidRequestError: the spec would become invalid, an immutable field would change, or the volume would shrink.
    """
    wanted = patched(storage.spec, change.get("spec", EMPTY))
    found = violations(wanted, GPUStorageSpec)
    raise_if_any(found or (*_fixed_violations(storage.spec, wanted), *_size_violations(storage, wanted)))
    return EMPTY if known_fields(wanted) == known_fields(storage.spec) else change


def ensure_unused(storage: GPUStorage) -> None:
    """Return if the storage has no lock, or is being deleted already.

    Raises:
        StorageInUseError: a unit or a copy has it.
    """
    lock = lock_of(storage.metadata)
    if lock is None or storage.metadata.deletion_timestamp is not None:
        return
    advice = "delete that unit, or take the mount out of it" if lock.unit_name else "wait until it is copied"
    raise StorageInUseError(
        f"storage {storage.key} is in use by {lock.holder}; {advice}, and wait until its pod is gone"
    )


async def _ensure_unmounted(client: Client, storage: GPUStorage, _operations_namespace: str) -> None:
    """Units that share it read-only have no lock, and a unit that was just created with kubectl has none yet."""
    if storage.metadata.deletion_timestamp is not None:
        return
    meta = storage.metadata
    units = (await client.list(GPUUnit, meta.namespace)).items
    names = sorted(unit.metadata.name for unit in units if mount_of(unit, meta.name) is not None)
    if names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        raise StorageInUseError(
            f"storage {storage.key} is mounted by units {', '.join(names[:_MOST_NAMED])}{more};"
            " delete them, or take the mount out of them"
        )


async def _ensure_source(client: Client, request: CreateStorage) -> None:
    prepare = request.spec.prepare
    source = None if prepare is None else prepare.from_storage_name
    if source is not None and await read_or_none(client, GPUStorage, ObjectKey(request.namespace, source)) is None:
        raise_if_any([Violation.of("prepare.fromStorageName", f"a storage of namespace {request.namespace}", source)])


def _creation_violations(request: CreateStorage) -> Iterator[Violation]:
    yield from violations(request.spec, GPUStorageSpec)
    prepare = request.spec.prepare
    if prepare is not None and prepare.from_storage_name == request.name:
        yield Violation.of("prepare.fromStorageName", "another storage", request.name)


def _fixed_violations(before: GPUStorageSpec, wanted: GPUStorageSpec) -> Iterator[Violation]:
    advice = "which never changes; create another storage and copy this one with prepare.fromStorageName"
    if before.storage_class_name != wanted.storage_class_name:
        yield Violation.of(
            "storageClassName", f"{_shown(before.storage_class_name)}, {advice}", wanted.storage_class_name
        )
    if before.access_mode != wanted.access_mode:
        yield Violation.of("accessMode", f"{before.access_mode}, {advice}", wanted.access_mode)
    if before.prepare != wanted.prepare:
        # A preparation may hold secrets, so it is not quoted.
        yield Violation("prepare", f"the preparation of the storage, {advice}")


def _size_violations(storage: GPUStorage, wanted: GPUStorageSpec) -> Iterator[Violation]:
    """A volume may be larger than requested: only a smaller request than before is a request to shrink it."""
    capacity, size = storage.status.capacity, parse_quantity(wanted.size)
    if capacity is None or size >= parse_quantity(storage.spec.size):
        return
    if size < parse_quantity(capacity):
        yield Violation.of("size", f"at least the capacity {capacity}, because a volume cannot shrink", wanted.size)


def _shown(name: str | None) -> str:
    return "none" if name is None else name


def _storage(request: CreateStorage) -> GPUStorage:
    return GPUStorage(ObjectMeta(name=request.name, namespace=request.namespace), request.spec)


STORAGE_CREATION: Final = CreateObjectHandler(
    CREATE_GPU_STORAGE, CreateStorage, _storage, _creation_violations, _ensure_source
)
"""Executes create_gpu_storage operations."""
STORAGES: Final = ServedKind(
    GPUStorage,
    lambda namespaces: namespaces.instance,
    creation=STORAGE_CREATION,
    update=UpdateObjectHandler(UPDATE_GPU_STORAGE, GPUStorage, storage_patch),
    deletion=DeleteObjectHandler(DELETE_GPU_STORAGE, GPUStorage, ensure_unused, _ensure_unmounted),
    actions=(STORAGE_RECOVERY,),
)
"""Storages in the API. The deletion of one that is in use raises StorageInUseError."""
