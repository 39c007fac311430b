"""Ending the creation of an object that is about to be deleted.

Whoever asked for an object hears of it before the Operation that made it has ended. If the process dies in between and
the object is deleted, whoever takes that Operation over would find nothing, and make it again.
"""

from typing import Final

from gpuruntime.api.names import CLAIM_ID, OPERATION_ID, REQUEST_HASH
from gpuruntime.api.operation import (
    CREATE_GPU_UNIT,
    CREATE_STOCKPOOL,
    Operation,
    OperationResult,
    operation_name,
)
from gpuruntime.control import write_status
from gpuruntime.kube import ConflictError, NotFoundError, UnavailableError
from gpuruntime.meta import EMPTY, TypedObject
from gpuruntime.service.operations.lease import OperationLease, drop_request
from gpuruntime.service.operations.record import ended, has_ended

__all__ = ["end_creation"]

_ATTEMPTS: Final = 10
_CREATIONS: Final = frozenset({CREATE_GPU_UNIT, CREATE_STOCKPOOL})


async def end_creation(hold: OperationLease, made: TypedObject) -> None:
    """Have the Operation that made the object ended before the object is deleted, on behalf of the Operation in hand.

    Whoever works on it finds out by its next write; whoever takes it over sees that it has ended.

    Raises:
        KubeError: it is not known whether it has; the object must not be deleted yet.
    """
    operation_id = made.metadata.annotations.get(OPERATION_ID)
    if operation_id is None:
        return
    meta = made.metadata
    result = OperationResult(made.KIND.kind, meta.name, meta.namespace, meta.uid)
    for _ in range(_ATTEMPTS):
        try:
            found = await hold.client.get(Operation, operation_name(operation_id), hold.operation.metadata.namespace)
            if has_ended(found) or not _has_made(found, made):
                return
            status = ended(found.status, hold.now(), result=result, error=None)
            written = await write_status(hold.client, found, status)
        except ConflictError:
            continue
        except NotFoundError:
            return
        await drop_request(hold.client, written or found)
        return
    raise UnavailableError(f"operation {operation_id} changes all the time; what it made is deleted later")


def _has_made(operation: Operation, made: TypedObject) -> bool:
    """Whether this is the Operation that made the object; annotations alone may have been copied from another one."""
    annotations = made.metadata.annotations
    return (
        operation.spec.type in _CREATIONS
        and annotations.get(REQUEST_HASH) == operation.spec.request_hash
        and annotations.get(CLAIM_ID, operation.metadata.uid) == operation.metadata.uid
        and (operation.spec.request or EMPTY).get("name") == made.metadata.name
    )
