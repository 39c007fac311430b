"""Finalizers: what must happen before an object may go.

They change by JSON patches that first test what they change, so that two controllers that edit the list at a time get
an error instead of a broken list.
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
    """Run `apply` for an object that is to be, `cleanup` for one that is to go; gives what `apply` gives.

    Guarantees: `apply` runs only while the finalizer is on the object, so whatever it makes is cleaned up some day;
    the finalizer goes only after `cleanup` has returned without an error; an object that is going and has no such
    finalizer is left alone.

    Caveats: `cleanup` may run again after it has succeeded, if the removal of the finalizer fails.

    Raises:
        KubeError: as `add_finalizer` and `remove_finalizer`, and whatever the two functions raise.
    """
    if obj.metadata.deletion_timestamp is None:
        return await apply(await add_finalizer(client, obj, name))
    if name in obj.metadata.finalizers:
        await cleanup(obj)
        await remove_finalizer(client, obj, name)
    return None


async def add_finalizer(client: Client, obj: K, name: str) -> K:
    """The object with the finalizer; the very one that was given if it has it.

    Raises:
        ConflictError: the finalizers changed since the object was read, or another object has its name by now.
        BeingDeletedError: the object is going, and takes no finalizers any more.
        KubeError: whatever else a request may end with.
    """
    present = obj.metadata.finalizers
    if name in present:
        return obj
    check_writable(obj)
    if present:
        change = [_test(_LIST, present), {"op": "add", "path": f"{_LIST}/-", "value": name}]
    else:
        # A test for null holds for a field that is absent.
        change = [_test(_LIST, None), {"op": "add", "path": _LIST, "value": [name]}]
    return await _patch(client, obj, change)


async def remove_finalizer(client: Client, obj: K, name: str) -> K | None:
    """The object without the finalizer, the very one that was given if it has none; None if the object is gone.

    The server may have deleted an object that comes back without any finalizer.

    Raises:
        ConflictError: the finalizers changed since the object was read, or another object has its name by now.
        KubeError: whatever else a request may end with.
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
        # The server says 422 when a test fails, as for an object that breaks rules, but then it gives causes.
        if error.causes:
            raise
        said = f"the finalizers of {obj.kind.kind} {obj.key} changed since it was read; read it again"
        raise ConflictError(Status(409, "Conflict", said), error.request) from error
    return patched


def _test(path: str, value: Any) -> Mapping[str, Any]:
    return {"op": "test", "path": path, "value": value}
