"""Finalizers: cleanup that must succeed before an object is deleted.

They are changed by JSON patches with a test operation, so that two controllers that edit the list concurrently get a
conflict instead of a corrupted list.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from gpuruntime.control.writing.ownership import check_writable
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, InvalidError, NotFoundError, Status
from gpuruntime.kube.forms import form_of
from gpuruntime.kube.patches import JsonPatch
from gpuruntime.meta.objects import KubeObject

__all__ = ["add_finalizer", "remove_finalizer", "with_finalizer"]

K = TypeVar("K", bound=KubeObject)
R = TypeVar("R")

_LIST = "/metadata/finalizers"


async def with_finalizer(
    client: Client,
    obj: K,
    name: str,
    *,
    apply: Callable[[K], Awaitable[R]],
    cleanup: Callable[[K], Awaitable[None]],
) -> R | None:
    """Run `cleanup` if the object is being deleted, else `apply`; returns the result of `apply`.

    Guarantees:
        `apply` runs only while the finalizer is on the object, so everything that it creates is cleaned up eventually.
        The finalizer is removed only after `cleanup` has succeeded. An object that is being deleted without this
        finalizer is ignored.

    Caveats:
        `cleanup` may run again after it has succeeded, if the removal of the finalizer fails.

    Raises:
        KubeError: as `add_finalizer` and `remove_finalizer`, and any error of the two functions.
    """
    if obj.metadata.deletion_timestamp is None:
        return await apply(await add_finalizer(client, obj, name))
    if name in obj.metadata.finalizers:
        await cleanup(obj)
        await remove_finalizer(client, obj, name)
    return None


async def add_finalizer(client: Client, obj: K, name: str) -> K:
    """Add a finalizer; returns the updated object, or the same object if it already has the finalizer.

    Raises:
        ConflictError: the finalizers have changed since the object was read, or another object has its name now.
        BeingDeletedError: the object is being deleted and accepts no more finalizers.
        KubeError: any other error of a request.
    """
    present = obj.metadata.finalizers
    if name in present:
        return obj
    check_writable(obj)
    if present:
        change = [_test(_LIST, present), {"op": "add", "path": f"{_LIST}/-", "value": name}]
    else:
        # A test for null succeeds if the field is absent.
        change = [_test(_LIST, None), {"op": "add", "path": _LIST, "value": [name]}]
    return await _patch(client, obj, change)


async def remove_finalizer(client: Client, obj: K, name: str) -> K | None:
    """Remove a finalizer; returns the updated object, the same object if it has none, or None if it is gone.

    An object that is returned without any finalizers may already be deleted on the server.

    Raises:
        ConflictError: the finalizers have changed since the object was read, or another object has its name now.
        KubeError: any other error of a request.
    """
    if name not in obj.metadata.finalizers:
        return obj
    path = f"{_LIST}/{obj.metadata.finalizers.index(name)}"
    try:
        return await _patch(client, obj, [_test(path, name), {"op": "remove", "path": path}])
    except NotFoundError:
        return None


async def _patch(client: Client, obj: K, change: list[Mapping[str, Any]]) -> K:
    meta = obj.metadata
    patch = JsonPatch([_test("/metadata/uid", meta.uid), *change])
    try:
        patched: K = await client.patch(form_of(obj), meta.name, meta.namespace, patch)
    except InvalidError as error:
        # The server returns 422 for a failed test without causes, and for an invalid object with causes.
        if error.causes:
            raise
        message = f"the finalizers of {obj.kind.kind} {obj.key} changed since it was read; read it again"
        raise ConflictError(Status(409, "Conflict", message), error.request) from error
    return patched


def _test(path: str, value: Any) -> Mapping[str, Any]:
    return {"op": "test", "path": path, "value": value}
