"""Recovering a storage whose preparation failed: a request for one more attempt, as an annotation of the storage.

The operationID of the request is the nonce of the attempt: the reconciler starts one Job for each new nonce. A request
that is sent again finds its nonce, and changes nothing.
"""

from typing import Any, Final

from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.names import RECOVERY_NONCE, RECOVERY_WIPE
from gpuruntime.api.operation import RECOVER_GPU_STORAGE
from gpuruntime.api.reasons import FAILED, PENDING
from gpuruntime.desired.storage.locks import lock_of
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, freeze
from gpuruntime.schema import Violation
from gpuruntime.service.errors import InvalidRequestError, NotRecoverableError, StorageInUseError
from gpuruntime.service.objects.update import UpdateObject, UpdateObjectHandler

__all__ = ["STORAGE_RECOVERY", "recovery_patch", "recovery_request"]


def recovery_request(key: ObjectKey, operation_id: str, *, wipe: bool, resource_version: str = "") -> UpdateObject:
    """The request for another attempt; with `wipe` everything on the volume is deleted first."""
    annotations = {RECOVERY_NONCE: operation_id, RECOVERY_WIPE: None if wipe else "false"}
    change: FrozenDict[str, Any] = freeze({"metadata": {"annotations": annotations}})
    return UpdateObject(key.name, key.namespace, change, resource_version=resource_version)


def recovery_patch(storage: GPUStorage, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The merge patch for a recovery; EMPTY if this very recovery was requested before.

    Raises:
        InvalidRequestError: the storage has no preparation.
        StorageInUseError: a unit or a copy has it.
        NotRecoverableError: its preparation has not failed, or it is being deleted.
    """
    nonce = change["metadata"]["annotations"][RECOVERY_NONCE]
    if storage.metadata.annotations.get(RECOVERY_NONCE) == nonce:
        return EMPTY
    if storage.spec.prepare is None:
        raise InvalidRequestError((Violation("", "a storage with prepare", f"storage {storage.key} without one"),))
    if storage.metadata.deletion_timestamp is not None:
        raise NotRecoverableError(f"storage {storage.key} is being deleted; create another one")
    lock = lock_of(storage.metadata)
    if lock is not None:
        raise StorageInUseError(f"storage {storage.key} is in use by {lock.holder}; recover it when it is free")
    phase = None if storage.status.prepare is None else storage.status.prepare.phase
    if phase != FAILED:
        raise NotRecoverableError(
            f"storage {storage.key}: expected a preparation in phase {FAILED}, found {phase or PENDING};"
            " only a failed one is repeated"
        )
    return change


STORAGE_RECOVERY: Final = UpdateObjectHandler(RECOVER_GPU_STORAGE, GPUStorage, recovery_patch)
"""Executes recover_gpu_storage operations."""
