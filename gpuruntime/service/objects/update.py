"""Updating an object on request, by a merge patch (RFC 7386): what is absent stays, null removes, lists are replaced.

If the process dies, the replica that takes the Operation over checks whether the object carries the Operation's UID in
its `changed-by` annotation. If it does, the update was made, and later changes by others are left alone. If not, it is
made now.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from attrs import evolve, field, frozen

from gpuruntime.api.names import GROUP
from gpuruntime.api.operation import OperationResult
from gpuruntime.kube import Client, ConflictError, MergePatch, NotFoundError
from gpuruntime.meta import (
    EMPTY,
    DecodeError,
    FrozenDict,
    ObjectKey,
    Struct,
    TypedObject,
    decode,
    encode,
    known_fields,
    wire,
)
from gpuruntime.schema import Violation, violations
from gpuruntime.service.errors import InvalidRequestError, ObjectNotFoundError, ServiceError, StaleVersionError
from gpuruntime.service.objects.admission import REFUSALS, raise_if_any, refusal
from gpuruntime.service.objects.conflicts import ATTEMPTS, changed_each_time
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.submit import DEFAULT_WAIT_SECONDS, Operations, Performed
from gpuruntime.service.reads.reader import read_or_none

__all__ = [
    "CHANGED_BY",
    "UpdateGuard",
    "UpdateObject",
    "UpdateObjectHandler",
    "Updates",
    "WriteResult",
    "ensure_version",
    "merge",
    "patched",
    "spec_patch",
    "write_result",
]

CHANGED_BY: Final = f"{GROUP}/changed-by"
"""Annotation of an updated object: the UIDs of the Operations that updated it last, the newest first."""

K = TypeVar("K", bound=TypedObject)
K_contra = TypeVar("K_contra", contravariant=True)
S = TypeVar("S", bound=Struct)
_Class = type[K]
_UIDS_KEPT: Final = 8


@frozen
class UpdateObject(Struct):
    """Update an object: `change` is a merge patch, `resource_version` the version that it must have ("": any).

    The caller sends name, namespace and change. The UID is added when the Operation is created.
    """

    name: str
    namespace: str
    change: FrozenDict[str, Any] = field(metadata=wire(sensitive=True))
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


def patched(value: S, patch: Mapping[str, Any]) -> S:
    """A value with a merge patch applied.

    Raises:
        InvalidRequestError: the patch removes a required field, or makes one invalid.
    """
    changed = merge(encode(value), patch)
    try:
        return decode(type(value), changed)
    except DecodeError as error:
        raise InvalidRequestError(violations(changed, type(value)) or (Violation("", str(error)),)) from error


def merge(value: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object with a merge patch applied. The arguments are not modified."""
    result = dict(value)
    for key, item in patch.items():
        if item is None:
            result.pop(key, None)
        elif isinstance(item, Mapping):
            before = result.get(key)
            result[key] = merge(before if isinstance(before, Mapping) else {}, item)
        else:
            result[key] = item
    return result


def spec_patch(spec: Struct, change: FrozenDict[str, Any]) -> FrozenDict[str, Any]:
    """The merge patch for a change of this spec and of nothing else; EMPTY if nothing would differ.

    Raises:
        InvalidRequestError: the spec would become invalid.
    """
    wanted = patched(spec, change.get("spec", EMPTY))
    raise_if_any(violations(wanted, type(wanted)))
    return EMPTY if known_fields(wanted) == known_fields(spec) else change


class UpdateGuard(Protocol[K_contra]):
    """What an update of a kind needs before it is written, beyond the object: other objects that it locks."""

    async def check(self, client: Client, current: K_contra, patch: FrozenDict[str, Any]) -> None:
        """Return if nothing stands against the patch now. It writes nothing.

        Raises:
            ServiceError: something does.
        """

    async def acquire(self, lease: OperationLease, current: K_contra, patch: FrozenDict[str, Any]) -> None:
        """Lock what the patch needs; an earlier attempt may have done so.

        Raises:
            ServiceError: that is not possible; nothing stays locked.
        """

    async def release(self, lease: OperationLease, current: K_contra, patch: FrozenDict[str, Any]) -> None:
        """Release what was locked for the patch: it was refused."""


@frozen
class UpdateObjectHandler(Generic[K]):
    """Executes updates of one kind.

    Args:
        type: the type of the Operations.
        complete: returns the whole patch for the current object and the requested change; EMPTY if nothing differs.
            Raises InvalidRequestError if the object would become invalid.
        guard: locks what a patch needs; None if that is nothing.
    """

    type: str
    kind: _Class[K]
    complete: Callable[[K, FrozenDict[str, Any]], FrozenDict[str, Any]]
    guard: UpdateGuard[K] | None = None

    async def run(self, lease: OperationLease) -> Outcome:
        """Make the update.

        Raises:
            ObjectNotFoundError: the object is gone.
            StaleVersionError: it is not at the resourceVersion that the request names.
            InvalidRequestError: the update would make it invalid.
            RefusedError: the API server rejected the update.
            ServiceError: what the update needs is not free, see the guard.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        locked: list[tuple[K, FrozenDict[str, Any]]] = []
        try:
            return await self._update(lease, locked)
        except ServiceError:
            if self.guard is not None and locked:
                await self.guard.release(lease, *locked[-1])
            raise

    async def _update(self, lease: OperationLease, locked: list[tuple[K, FrozenDict[str, Any]]]) -> Outcome:
        """Make the update; `locked` gets each patch that something was locked for."""
        request = lease.request(UpdateObject)
        uid = lease.operation.metadata.uid
        for _ in range(ATTEMPTS):
            current = await read_or_none(lease.client, self.kind, request.key)
            if current is None or current.metadata.uid != request.uid:
                raise _gone(self.kind, request.key)
            if uid in _changed_by(current):
                return _outcome(current)
            ensure_version(current, request.resource_version)
            patch = self.complete(current, request.change)
            if patch == EMPTY:
                return _outcome(current)
            if self.guard is not None:
                await self.guard.acquire(lease, current, patch)
                locked.append((current, patch))
            try:
                return _outcome(await self._write(lease.client, current, patch, uid))
            except ConflictError:
                continue
        raise changed_each_time(f"{self.kind.KIND.kind} {request.key}")

    async def _write(self, client: Client, current: K, change: FrozenDict[str, Any], uid: str) -> K:
        meta = current.metadata
        uids = " ".join((uid, *_changed_by(current))[:_UIDS_KEPT])
        metadata = change.get("metadata", EMPTY)
        annotations = metadata.get("annotations", EMPTY) | {CHANGED_BY: uids}
        patch = MergePatch(change | {"metadata": metadata | {"annotations": annotations}}).locked(meta.resource_version)
        try:
            return await client.patch(self.kind, meta.name, meta.namespace, patch)
        except NotFoundError as error:
            raise _gone(self.kind, current.key) from error
        except REFUSALS as error:
            raise refusal(f"the update of {self.kind.KIND.kind} {current.key}", error) from error


@frozen
class WriteResult(Generic[K]):
    """Result of a write request: the object as it is now, None if it is gone, and the record of the request."""

    object: K | None
    performed: Performed


async def write_result(client: Client, kind: type[K], key: ObjectKey, performed: Performed) -> WriteResult[K]:
    """The result of a request that created or updated an object; after a replay the object is read live.

    Raises:
        KubeError: the API server is not available.
    """
    if isinstance(performed.object, kind):
        return WriteResult(performed.object, performed)
    found = await read_or_none(client, kind, key)
    is_same = found is not None and found.metadata.uid == performed.result.uid
    return WriteResult(found if is_same else None, performed)


@frozen
class Updates:
    """Updates objects on request."""

    operations: Operations
    client: Client

    async def update(
        self,
        handler: UpdateObjectHandler[K],
        operation_id: str,
        request: UpdateObject,
        *,
        within: float = DEFAULT_WAIT_SECONDS,
    ) -> WriteResult[K]:
        """Update an object. A replay returns the object as it is now.

        Raises:
            ObjectNotFoundError, StaleVersionError, InvalidRequestError: see the handler; nothing was stored.
            OperationConflictError: the operationID was used for another request.
            RefusedError: the API server rejected the update.
            NotFinishedError: it will be made; retry with the same operationID.
            NotRunningError, KubeError: try again with the same operationID.
        """
        found = await read_or_none(self.client, handler.kind, request.key)
        try:
            patch = _check(handler, found, request)
            if handler.guard is not None and found is not None:
                await handler.guard.check(self.client, found, patch)
        except ServiceError:
            # A replay must succeed also when the object has changed since.
            if await self.operations.find(operation_id) is None:
                raise
        asked = UpdateObject(request.name, request.namespace, request.change)
        stored = request if found is None else evolve(request, uid=found.metadata.uid)
        performed = await self.operations.perform(operation_id, handler.type, asked, stored=stored, within=within)
        return await write_result(self.client, handler.kind, request.key, performed)


def ensure_version(current: K, resource_version: str) -> None:
    """Return if the object is at this resourceVersion ("": any).

    Raises:
        StaleVersionError: it is at another one.
    """
    found = current.metadata.resource_version
    if resource_version not in {"", found}:
        raise StaleVersionError(
            f"{current.KIND.kind} {current.key} is at version {found}, expected {resource_version}: it changed since it"
            " was read; read it again"
        )


def _check(handler: UpdateObjectHandler[K], found: K | None, request: UpdateObject) -> FrozenDict[str, Any]:
    """The patch that the request would make now."""
    if found is None:
        raise _gone(handler.kind, request.key)
    ensure_version(found, request.resource_version)
    return handler.complete(found, request.change)


def _gone(kind: type[K], key: ObjectKey) -> ObjectNotFoundError:
    return ObjectNotFoundError(f"{kind.KIND.kind} {key}: expected one to change, found none")


def _changed_by(current: K) -> list[str]:
    return current.metadata.annotations.get(CHANGED_BY, "").split()


def _outcome(written: K) -> Outcome:
    meta = written.metadata
    return Outcome(OperationResult(written.KIND.kind, meta.name, meta.namespace, meta.uid), written)
