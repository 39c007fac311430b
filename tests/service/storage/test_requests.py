from typing import Any

import pytest
from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, GPUStorageStatus, StorageAccessor, StoragePrepare
from gpuruntime.desired.storage.locks import Lock
from gpuruntime.meta import EMPTY, FrozenDict, ObjectMeta, freeze
from gpuruntime.service.errors import InvalidRequestError, StorageInUseError
from gpuruntime.service.storage.requests import STORAGE_CREATION, CreateStorage, ensure_unused, storage_patch
from tests.service.storage.lock_scenes import locked

SPEC = GPUStorageSpec("10Gi", storage_class_name="fast", prepare=StoragePrepare("tool", args=("--token=hidden",)))
STORAGE = GPUStorage(ObjectMeta(name="data", namespace="here"), SPEC, GPUStorageStatus(capacity="12Gi"))


def change(**fields: Any) -> FrozenDict[str, Any]:
    made: FrozenDict[str, Any] = freeze({"spec": fields})
    return made


def faults(wanted: FrozenDict[str, Any]) -> dict[str, str]:
    """The violations of a change, by path."""
    with pytest.raises(InvalidRequestError) as refused:
        storage_patch(STORAGE, wanted)
    return {violation.path: str(violation) for violation in refused.value.violations}


def test_a_request_is_checked_by_the_rules_of_the_kind_and_copies_another_storage() -> None:
    odd = CreateStorage("data", GPUStorageSpec("0", access_mode="Often", prepare=StoragePrepare("tool")))
    itself = CreateStorage("data", GPUStorageSpec("1Gi", prepare=StoragePrepare(from_storage_name="data")))

    found = [violation.path for violation in STORAGE_CREATION.violations(odd)]

    assert {"size", "accessMode"} <= set(found)
    assert [violation.path for violation in STORAGE_CREATION.violations(itself)] == ["prepare.fromStorageName"]


def test_the_size_the_accessor_and_the_attributes_class_can_change() -> None:
    wanted = change(size="20Gi", accessor={"enabled": True}, volumeAttributesClassName="gold")

    assert storage_patch(STORAGE, wanted) == wanted


def test_a_change_that_changes_nothing_writes_nothing() -> None:
    same = change(size="10Gi", storageClassName="fast", accessor={"enabled": False})

    assert storage_patch(STORAGE, same) == EMPTY
    assert storage_patch(evolve(STORAGE, spec=evolve(SPEC, accessor=StorageAccessor())), change()) == EMPTY


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("storageClassName", "slow", "expected fast, which never changes"),
        ("storageClassName", None, "expected fast"),
        ("accessMode", "ReadWriteMany", "expected ReadWriteOnce"),
        ("prepare", {"args": ["other"]}, "expected the preparation of the storage"),
        ("prepare", None, "expected the preparation of the storage"),
    ],
)
def test_class_mode_and_preparation_never_change(field: str, value: Any, words: str) -> None:
    found = faults(change(**{field: value}))

    assert words in found[field]
    assert "hidden" not in found[field]


def test_a_volume_never_shrinks_below_its_capacity() -> None:
    grown = evolve(STORAGE, spec=evolve(SPEC, size="50Gi"))

    found = faults(change(size="5Gi"))

    assert found == {"size": 'size: expected at least the capacity 12Gi, because a volume cannot shrink, got "5Gi"'}
    assert storage_patch(grown, change(size="12Gi")) == change(size="12Gi")
    # A provisioner may have rounded the size up: a larger request that still fits shrinks nothing.
    assert storage_patch(STORAGE, change(size="11Gi")) == change(size="11Gi")


def test_a_locked_storage_is_not_deleted_and_one_that_is_being_deleted_is_left_alone() -> None:
    mounted, copied = locked(STORAGE, Lock("gpuunits/demo", "u1")), locked(STORAGE, Lock("gpustorages/copy", "u2"))
    going = evolve(mounted, metadata=evolve(mounted.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))

    with pytest.raises(StorageInUseError, match="here/data is in use by gpuunits/demo; delete that unit"):
        ensure_unused(mounted)
    with pytest.raises(StorageInUseError, match="in use by gpustorages/copy; wait until it is copied"):
        ensure_unused(copied)
    ensure_unused(STORAGE)
    ensure_unused(going)
