from typing import Any

import pytest
from attrs import evolve

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec, GPUStorageStatus, PrepareStatus, StoragePrepare
from gpuruntime.api.names import RECOVERY_NONCE, RECOVERY_WIPE
from gpuruntime.desired.storage.locks import Lock
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, ObjectMeta
from gpuruntime.service.errors import InvalidRequestError, NotRecoverableError, StorageInUseError
from gpuruntime.service.storage.recovery import recovery_patch, recovery_request
from tests.service.storage.lock_scenes import locked

FAILED = GPUStorage(
    ObjectMeta(name="data", namespace="here"),
    GPUStorageSpec("10Gi", prepare=StoragePrepare("tool", args=("x",))),
    GPUStorageStatus(prepare=PrepareStatus(phase="Failed")),
)


def asked(operation_id: str = "again", *, wipe: bool = True) -> FrozenDict[str, Any]:
    return recovery_request(ObjectKey("here", "data"), operation_id, wipe=wipe).change


def test_a_recovery_writes_the_operation_id_as_nonce_and_whether_to_wipe() -> None:
    wiping, keeping = recovery_patch(FAILED, asked()), recovery_patch(FAILED, asked(wipe=False))

    assert wiping["metadata"]["annotations"] == {RECOVERY_NONCE: "again", RECOVERY_WIPE: None}
    assert keeping["metadata"]["annotations"] == {RECOVERY_NONCE: "again", RECOVERY_WIPE: "false"}


def test_a_recovery_that_was_requested_before_changes_nothing_whatever_came_of_it() -> None:
    annotations = FrozenDict({RECOVERY_NONCE: "again"})
    running = evolve(
        FAILED,
        metadata=evolve(FAILED.metadata, annotations=annotations),
        status=GPUStorageStatus(prepare=PrepareStatus(phase="Running")),
    )

    assert recovery_patch(running, asked()) == EMPTY


def test_of_two_recoveries_at_once_one_is_refused_and_the_next_is_accepted_after_the_attempt() -> None:
    requested = evolve(FAILED.metadata, annotations=FrozenDict({RECOVERY_NONCE: "first"}))
    waiting = evolve(FAILED, metadata=requested)
    failed_again = evolve(
        waiting, status=GPUStorageStatus(prepare=PrepareStatus(phase="Failed", recovery_nonce="first"))
    )

    with pytest.raises(NotRecoverableError, match="recovery first was requested and has not begun"):
        recovery_patch(waiting, asked("second"))

    assert recovery_patch(failed_again, asked("second")) == asked("second")


def test_only_a_failed_preparation_of_a_free_storage_is_repeated() -> None:
    without = evolve(FAILED, spec=GPUStorageSpec("10Gi"))
    going = evolve(FAILED, metadata=evolve(FAILED.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))

    with pytest.raises(InvalidRequestError, match="expected a storage with prepare"):
        recovery_patch(without, asked())
    with pytest.raises(StorageInUseError, match="in use by gpuunits/demo"):
        recovery_patch(locked(FAILED, Lock("gpuunits/demo", "u1")), asked())
    with pytest.raises(NotRecoverableError, match="being deleted"):
        recovery_patch(going, asked())
    for phase, shown in (("Succeeded", "Succeeded"), ("Running", "Running"), (None, "Pending")):
        other = evolve(FAILED, status=GPUStorageStatus(prepare=PrepareStatus(phase=phase)))
        with pytest.raises(NotRecoverableError, match=f"expected a preparation in phase Failed, found {shown}"):
            recovery_patch(other, asked())
