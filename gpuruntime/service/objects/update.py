"""Changing an object on request: what the request names becomes as it says, everything else stays.

Where the process dies, and what happens then: whoever takes the Operation over looks whether the object bears the mark
of the Operation. If it does, the change was made, and whatever others changed since is left alone; otherwise it is made
now.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from attrs import evolve, field, frozen

from gpuruntime.api.names import GROUP
from gpuruntime.api.operation import OperationResult
from gpuruntime.kube import Client, ConflictError, MergePatch, NotFoundError, UnavailableError
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, Struct, TypedObject, wire
from gpuruntime.service.errors import ObjectNotFoundError, ServiceError, StaleVersionError
from gpuruntime.service.objects.admission import REFUSALS, refused
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.operations import Operations, Performed

__all__ = ["CHANGED_BY", "ChangeObject", "Changed", "Changes", "ObjectChange", "ensure_version", "read_or_none"]

CHANGED_BY: Final = f"{GROUP}/changed-by"
"""On an object that was changed by request: the UIDs of the Operations that did so last, the newest first."""

K = TypeVar("K", bound=TypedObject)
_Class = type[K]
_MARKS_KEPT: Final = 8
_ATTEMPTS: Final = 10
_PATIENCE_SECONDS: Final = 20.0


@frozen
class ChangeObject(Struct):
    """Change an object: `change` is a merge patch of it, `resource_version` the state that it must be in ("": any).

    The caller says name, namespace and change. The rest is noted when the Operation is made.
    """

    name: str
    namespace: str
    change: FrozenDict[str, Any] = field(metadata=wire(sensitive=True))
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


@frozen
class ObjectChange(Generic[K]):
    """The work of an operation that changes an object of a kind.

    Args:
        type: the type of the operation.
        complete: the whole patch for an object as it is and a change as it was asked for; EMPTY if nothing differs.
            Raises InvalidRequestError for one that cannot be made.
    """

    type: str
    kind: _Class[K]
    complete: Callable[[K, FrozenDict[str, Any]], FrozenDict[str, Any]]

    async def run(self, hold: OperationLease) -> Outcome:
        """Make the change.

        Raises:
            ObjectNotFoundError: the object is gone.
            StaleVersionError: it is not in the state that the request names.
            InvalidRequestError: it is in a state to which the change cannot be made.
            RefusedError: the API server does not take the change.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = hold.request(ChangeObject)
        mark = hold.operation.metadata.uid
        for _ in range(_ATTEMPTS):
            current = await read_or_none(hold.client, self.kind, request.key)
            if current is None or current.metadata.uid != request.uid:
                raise _gone(self.kind, request.key)
            if mark in _marks(current):
                return _outcome(current)
            ensure_version(current, request.resource_version)
            patch = self.complete(current, request.change)
            if patch == EMPTY:
                return _outcome(current)
            try:
                return _outcome(await self._write(hold.client, current, patch, mark))
            except ConflictError:
                continue
        raise UnavailableError(f"{self.kind.KIND.kind} {request.key} changes all the time; it is changed later")

    async def _write(self, client: Client, current: K, change: FrozenDict[str, Any], mark: str) -> K:
        meta = current.metadata
        marks = " ".join((mark, *_marks(current))[:_MARKS_KEPT])
        metadata = change.get("metadata", EMPTY) | {"annotations": {CHANGED_BY: marks}}
        patch = MergePatch(change | {"metadata": metadata}).locked(meta.resource_version)
        try:
            return await client.patch(self.kind, meta.name, meta.namespace, patch)
        except NotFoundError as error:
            raise _gone(self.kind, current.key) from error
        except REFUSALS as error:
            raise refused(f"the change of {self.kind.KIND.kind} {current.key}", error) from error


@frozen
class Changed(Generic[K]):
    """What came of a request: the object as it is now, None if it is gone by now, and the record of the request."""

    object: K | None
    performed: Performed


@frozen
class Changes:
    """Changes objects on request."""

    operations: Operations
    client: Client

    async def change(
        self,
        work: ObjectChange[K],
        operation_id: str,
        request: ChangeObject,
        *,
        within: float = _PATIENCE_SECONDS,
    ) -> Changed[K]:
        """Change an object. A replay gives the object as it is now.

        Raises:
            ObjectNotFoundError, StaleVersionError, InvalidRequestError: see `ObjectChange.run`; nothing was stored.
            OperationConflictError: the operationID was used for another request.
            RefusedError: the API server does not take the change.
            NotFinishedError: it will be made; ask again.
            NotRunningError, KubeError: not now; ask again with the same operationID.
        """
        found = await read_or_none(self.client, work.kind, request.key)
        try:
            _check(work, found, request)
        except ServiceError:
            # Whoever sends the same again must not be told what is wrong now that it is done.
            if await self.operations.find(operation_id) is None:
                raise
        asked = ChangeObject(request.name, request.namespace, request.change)
        noted = request if found is None else evolve(request, uid=found.metadata.uid)
        performed = await self.operations.perform(operation_id, work.type, asked, stored=noted, within=within)
        if isinstance(performed.object, work.kind):
            return Changed(performed.object, performed)
        found = await read_or_none(self.client, work.kind, request.key)
        is_it = found is not None and found.metadata.uid == performed.result.uid
        return Changed(found if is_it else None, performed)


async def read_or_none(client: Client, kind: type[K], key: ObjectKey) -> K | None:
    """The object, live; None if there is none."""
    try:
        return await client.get(kind, key.name, key.namespace)
    except NotFoundError:
        return None


def ensure_version(current: K, resource_version: str) -> None:
    """Pass if the object is in the state that a request names; "" names none.

    Raises:
        StaleVersionError: it is in another one.
    """
    found = current.metadata.resource_version
    if resource_version not in {"", found}:
        raise StaleVersionError(
            f"{current.KIND.kind} {current.key} is at version {found}, expected {resource_version}: it changed since it"
            " was read; read it again"
        )


def _check(work: ObjectChange[K], found: K | None, request: ChangeObject) -> None:
    if found is None:
        raise _gone(work.kind, request.key)
    ensure_version(found, request.resource_version)
    work.complete(found, request.change)


def _gone(kind: type[K], key: ObjectKey) -> ObjectNotFoundError:
    return ObjectNotFoundError(f"{kind.KIND.kind} {key}: expected one to change, found none")


def _marks(current: K) -> list[str]:
    return current.metadata.annotations.get(CHANGED_BY, "").split()


def _outcome(written: K) -> Outcome:
    meta = written.metadata
    return Outcome(OperationResult(written.KIND.kind, meta.name, meta.namespace, meta.uid), written)
