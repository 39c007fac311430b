"""Deleting an object on request, after ending the Operation that created it.

If the process dies, the replica that takes the Operation over deletes the object by its UID; an object that is gone
stays gone.

A caller receives a created object before the Operation that created it has ended. If the process dies in between and
the object is deleted, a replica that takes that Operation over would find nothing, and create the object again. So
`end_creation` ends it first.
"""

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from attrs import evolve, field, frozen

from gpuruntime.api.names import CLAIM_ID, OPERATION_ID, REQUEST_HASH
from gpuruntime.api.operation import Operation, OperationResult, operation_name
from gpuruntime.control import write_status
from gpuruntime.kube import Client, ConflictError, NotFoundError
from gpuruntime.meta import EMPTY, ObjectKey, Struct, TypedObject
from gpuruntime.service.errors import ObjectNotFoundError, ServiceError
from gpuruntime.service.objects.admission import REFUSALS, refusal
from gpuruntime.service.objects.conflicts import ATTEMPTS, changed_each_time
from gpuruntime.service.objects.update import ensure_version
from gpuruntime.service.operations.lease import OperationLease, Outcome, drop_request
from gpuruntime.service.operations.record import ended, has_ended
from gpuruntime.service.operations.submit import DEFAULT_WAIT_SECONDS, Operations, Performed
from gpuruntime.service.reads.reader import read_or_none

__all__ = ["DeleteObject", "DeleteObjectHandler", "Deletions", "end_creation"]

K = TypeVar("K", bound=TypedObject)
_Class = type[K]
_CREATION: Final = "create_"


@frozen
class DeleteObject(Struct):
    """Delete an object, if it is at `resource_version` ("": any).

    The caller sends name and namespace. The UID is added when the Operation is created.
    """

    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


def _allow(_object: TypedObject) -> None:
    pass


async def _allow_live(_client: Client, _object: TypedObject, _operations_namespace: str) -> None:
    pass


@frozen
class DeleteObjectHandler(Generic[K]):
    """Executes deletions of one kind.

    Args:
        type: the type of the Operations.
        check: raises a ServiceError if this object must not be deleted.
        check_live: the same, with reads from the API server, once when the request is submitted; its last argument is
            the namespace of Operations.
    """

    type: str
    kind: _Class[K]
    check: Callable[[K], None] = field(default=_allow)
    check_live: Callable[[Client, K, str], Awaitable[None]] = field(default=_allow_live)

    async def run(self, lease: OperationLease) -> Outcome:
        """Delete the object in the version that was checked: a concurrent claim wins.

        Raises:
            ServiceError: `check` raised it.
            StaleVersionError: it is not at the resourceVersion that the request names.
            RefusedError: the API server rejected the deletion.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        request = lease.request(DeleteObject)
        result = OperationResult(self.kind.KIND.kind, request.name, request.namespace, request.uid)
        for _ in range(ATTEMPTS):
            current = await read_or_none(lease.client, self.kind, request.key)
            if current is None or current.metadata.uid != request.uid:
                return Outcome(result)
            self.check(current)
            ensure_version(current, request.resource_version)
            await end_creation(lease, current)
            try:
                await lease.client.delete(
                    self.kind,
                    request.name,
                    request.namespace,
                    uid=request.uid,
                    resource_version=current.metadata.resource_version,
                )
            except ConflictError:
                continue
            except NotFoundError:
                pass
            except REFUSALS as error:
                raise refusal(f"the deletion of {self.kind.KIND.kind} {request.key}", error) from error
            return Outcome(result)
        raise changed_each_time(f"{self.kind.KIND.kind} {request.key}")


@frozen
class Deletions:
    """Deletes objects on request."""

    operations: Operations
    client: Client

    async def delete(
        self,
        handler: DeleteObjectHandler[K],
        operation_id: str,
        request: DeleteObject,
        *,
        within: float = DEFAULT_WAIT_SECONDS,
    ) -> Performed:
        """Delete an object. A replay deletes nothing, also if another object has the name by now.

        Raises:
            ObjectNotFoundError: it does not exist, and this operationID deleted none.
            StaleVersionError, RefusedError, ServiceError: see the handler; nothing was stored.
            OperationConflictError: the operationID was used for another request.
            NotFinishedError: it will be deleted; retry with the same operationID.
            NotRunningError, KubeError: try again with the same operationID.
        """
        found = await read_or_none(self.client, handler.kind, request.key)
        try:
            await self._check(handler, found, request)
        except ServiceError:
            # A replay must succeed also when the object has changed, or is gone, since.
            if await self.operations.find(operation_id) is None:
                raise
        asked = DeleteObject(request.name, request.namespace)
        stored = request if found is None else evolve(request, uid=found.metadata.uid)
        return await self.operations.perform(operation_id, handler.type, asked, stored=stored, within=within)

    async def _check(self, handler: DeleteObjectHandler[K], found: K | None, request: DeleteObject) -> None:
        if found is None:
            raise ObjectNotFoundError(f"{handler.kind.KIND.kind} {request.key}: expected one to delete, found none")
        handler.check(found)
        ensure_version(found, request.resource_version)
        await handler.check_live(self.client, found, self.operations.namespace)


async def end_creation(lease: OperationLease, made: TypedObject) -> None:
    """End the Operation that created the object, before the object is deleted.

    Its owner notices by its next write; a replica that takes it over sees that it has ended.

    Raises:
        KubeError: unknown whether it has ended; the object must not be deleted yet.
    """
    operation_id = made.metadata.annotations.get(OPERATION_ID)
    if operation_id is None:
        return
    meta = made.metadata
    result = OperationResult(made.KIND.kind, meta.name, meta.namespace, meta.uid)
    for _ in range(ATTEMPTS):
        try:
            found = await lease.client.get(Operation, operation_name(operation_id), lease.operation.metadata.namespace)
            if has_ended(found) or not _has_made(found, made):
                return
            status = ended(found.status, lease.now(), result=result, error=None)
            written = await write_status(lease.client, found, status)
        except ConflictError:
            continue
        except NotFoundError:
            return
        await drop_request(lease.client, written or found)
        return
    raise changed_each_time(f"operation {operation_id}")


def _has_made(operation: Operation, made: TypedObject) -> bool:
    """Whether this Operation created the object; annotations alone may have been copied from another object."""
    annotations = made.metadata.annotations
    return (
        operation.spec.type.startswith(_CREATION)
        and annotations.get(REQUEST_HASH) == operation.spec.request_hash
        and annotations.get(CLAIM_ID, operation.metadata.uid) == operation.metadata.uid
        and (operation.spec.request or EMPTY).get("name") == made.metadata.name
    )
