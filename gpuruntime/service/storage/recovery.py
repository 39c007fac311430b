"""Recovering a storage whose preparation failed: a request for one more attempt, as an annotation of the storage.

The operationID of the request is the nonce of the attempt: the reconciler starts one Job for each new nonce. A request
that is sent again finds its nonce, and changes nothing. Of two requests at once the second is refused, because the
status that it read is about the attempt before: else it would repeat the attempt of the first one.
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
        NotRecoverableError: its preparation has not failed, another recovery has yet to begin, or it is being deleted.
    """
    requested = storage.metadata.annotations.get(RECOVERY_NONCE)
    if requested == change["metadata"]["annotations"][RECOVERY_NONCE]:
        return EMPTY
    if storage.spec.prepare is None:
        raise InvalidRequestError((Violation("", "a storage with prepare", f"storage {storage.key} without one"),))
    if storage.metadata.deletion_timestamp is not None:
        raise NotRecoverableError(f"storage {storage.key} is being deleted; create another one")
    lock = lock_of(storage.metadata)
    if lock is not None:
        raise StorageInUseError(f"storage {storage.key} is in use by {lock.holder}; recover it when it is free")
    prepare = storage.status.prepare
    phase = None if prepare is None else prepare.phase
    if prepare is None or phase != FAILED:
        raise NotRecoverableError(
            f"storage {storage.key}: expected a preparation in phase {FAILED}, found {phase or PENDING};"
            " only a failed one is repeated"
        )
    if requested is not None and requested != prepare.recovery_nonce:
        raise NotRecoverableError(
            f"storage {storage.key}: recovery {requested} was requested and has not begun; expected its outcome first"
        )
    return change


STORAGE_RECOVERY: Final = UpdateObjectHandler(RECOVER_GPU_STORAGE, GPUStorage, recovery_patch)
"""Executes recover_gpu_storage operations."""
