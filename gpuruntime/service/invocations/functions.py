"""The functions of a process's cache, by the names under which callers know them."""

from collections.abc import Iterable
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction, function_name, request_id_of
from gpuruntime.api.invocations import InvocationKey, function_digest, generated_for
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.reasons import READY_CONDITION
from gpuruntime.control import Cache, Index, Informer, Store
from gpuruntime.desired.functions.joining import holder
from gpuruntime.meta import ObjectKey, find_condition
from gpuruntime.service.errors import FunctionDeletingError, ObjectNotFoundError

__all__ = ["Functions", "functions_with", "waiting_for", "watch_functions"]

_REQUEST_ID: Final = "requestID"
_DIGEST: Final = "digest"


def _request_ids(raw: Any) -> Iterable[str]:
    return (raw["spec"].get("requestID") or raw["metadata"]["name"],)


def _digests(raw: Any) -> Iterable[str]:
    return (function_digest(ObjectKey(raw["metadata"]["namespace"], raw["metadata"]["name"])),)


_INDEXES: Final = (Index(_REQUEST_ID, _request_ids), Index(_DIGEST, _digests))


def watch_functions(cache: Cache, namespaces: Namespaces) -> Informer[GPUFunction]:
    """The informer of functions, with the indexes that reads by requestID and by invocation need."""
    return cache.informer(GPUFunction, namespaces=namespaces.instance, indexes=_INDEXES)


def functions_with(functions: Store[GPUFunction], namespace: str, request_id: str) -> tuple[GPUFunction, ...]:
    """The functions of a namespace with this requestID; normally at most one."""
    return functions.list(namespace, where={_REQUEST_ID: request_id}).items


@frozen
class Functions:
    """Finds functions. `namespaces` are those of functions; the first is that of requests that name none."""

    informer: Informer[GPUFunction]
    namespaces: tuple[str, ...]

    def find(self, request_id: str, namespace: str | None = None) -> GPUFunction | None:
        """The function that has this requestID: of several in a namespace the oldest, which alone has workers.

        Without a namespace in any, the first namespace first.
        """
        for where in self._searched(namespace):
            found = holder(functions_with(self.informer.store, where, request_id))
            if found is not None:
                return found
        return None

    def to_invoke(self, request_id: str, namespace: str | None = None) -> GPUFunction:
        """The function that a new invocation is for.

        Raises:
            ObjectNotFoundError: there is none.
            FunctionDeletingError: it is being deleted.
        """
        found = self.find(request_id, namespace)
        if found is None:
            raise ObjectNotFoundError(f"function {request_id}: not found in {self._where(namespace)}")
        if found.metadata.deletion_timestamp is not None:
            raise FunctionDeletingError(f"function {request_id} is being deleted, and takes no more invocations")
        return found

    def key_of(self, request_id: str, namespace: str | None = None) -> ObjectKey:
        """The key of a function, also of one that was deleted: its invocations can be read for a while.

        Raises:
            ObjectNotFoundError: no function can have it.
        """
        found = self.find(request_id, namespace)
        if found is not None:
            return found.key
        where = self._searched(namespace)
        if not where:
            raise ObjectNotFoundError(f"function {request_id}: not found in {self._where(namespace)}")
        return ObjectKey(where[0], function_name(request_id))

    def candidates(self, invocation_id: str) -> tuple[ObjectKey, ...]:
        """The functions for which an ID may have been generated: one, except for collisions of their digests."""
        digest = generated_for(invocation_id)
        if digest is None:
            return ()
        return tuple(each.key for each in self.informer.store.list(where={_DIGEST: digest}).items)

    def of(self, key: InvocationKey) -> GPUFunction | None:
        """The function of an invocation; None if it was deleted."""
        return self.informer.store.get(key.function_key)

    def request_id(self, key: ObjectKey) -> str:
        """The requestID of a function; its name if it was deleted."""
        found = self.informer.store.get(key)
        return key.name if found is None else request_id_of(found)

    def _searched(self, namespace: str | None) -> tuple[str, ...]:
        return self.namespaces if namespace is None else tuple(one for one in self.namespaces if one == namespace)

    def _where(self, namespace: str | None) -> str:
        return f"namespace {namespace}" if namespace else f"the namespaces {', '.join(self.namespaces)}"


def waiting_for(function: GPUFunction | None) -> str | None:
    """What a queued invocation waits for, other than for invocations before it; None if there is a ready worker."""
    if function is None:
        return None
    if function.spec.paused:
        return "the function is paused"
    workers = function.status.workers
    if workers is not None and workers.ready:
        return None
    ready = find_condition(function.status.conditions, READY_CONDITION)
    return (ready.message if ready is not None else "") or "no worker is ready"
