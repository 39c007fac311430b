"""Status writes, skipped if the status has not changed."""

from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args

from attrs import evolve, fields_dict, resolve_types

from gpuruntime.control.writing.trimmed_forms import without_managed_fields
from gpuruntime.kube.client import Client
from gpuruntime.kube.forms import metadata_only
from gpuruntime.kube.patches import JsonPatch
from gpuruntime.meta.codec import encode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.frozen_mapping import freeze, thaw
from gpuruntime.meta.objects import ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["write_status"]

W = TypeVar("W", bound=TypedObject | DynamicObject)


async def write_status(client: Client, obj: W, new_status: Struct | Mapping[str, Any]) -> W | None:
    """Write the status of an object; returns the updated object, or None if there was nothing to write.

    The returned object has the status as it was sent and the new metadata, without managedFields.

    A typed object takes the Struct of its status, a dynamic one a mapping. Build conditions with `set_condition`, which
    keeps lastTransitionTime while the status of a condition is the same.

    Guarantees:
        Only the status is written, whatever else differs in `obj`. A status that differs only in null, "", [] and {} is
        not written. A concurrent change of the object is never overwritten.

    Raises:
        ConflictError: the object has changed since it was read; read it again.
        NotFoundError: the object is gone.
        TypeError: the kind has no status, or one of another type.
        ValueError: the object was not read from a server.
        KubeError: any other error of a request.
    """
    changed = _with_status(obj, new_status)
    before, after = _status_of(obj), _status_of(changed)
    if _pruned(before) == _pruned(after):
        return None
    meta = obj.metadata
    if not meta.resource_version:
        raise ValueError(f"expected {obj.kind} {obj.key} as read from the server, got one without resourceVersion")
    # For some built-in kinds an update of the status writes labels, too. With the version, a stale patch conflicts.
    patch = JsonPatch(
        [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version},
            {"op": "add", "path": "/status", "value": after},
        ]
    )
    # The caller already has the rest.
    form = without_managed_fields(metadata_only(obj.kind))
    written = await client.patch(form, meta.name, meta.namespace, patch, subresource="status")
    return _with_metadata(changed, written.metadata)


def _with_status(obj: W, status: Struct | Mapping[str, Any]) -> W:
    if isinstance(obj, DynamicObject):
        if not isinstance(status, Mapping):
            raise TypeError(f"expected a mapping as status of {obj.kind} {obj.key}, got {type(status).__qualname__}")
        return evolve(obj, body=obj.body | {"status": freeze(thaw(status))})
    if "status" not in fields_dict(type(obj)):
        raise TypeError(f"expected a kind with a status, got {obj.kind}")
    before = getattr(obj, "status", None)
    cls: Any = type(obj)  # mypy does not take a class of attrs for hashable
    expected = _status_types(cls) if before is None else (type(before),)
    if not isinstance(status, expected):
        wanted, found = " or ".join(each.__qualname__ for each in expected), type(status).__qualname__
        raise TypeError(f"expected the status type of {obj.kind} {obj.key}, {wanted}, got {found}")
    # mypy knows the fields of the bound only; the field was looked up above.
    return evolve(obj, status=status)  # type: ignore[call-arg]  # see above


@cache
def _status_types(cls: type[TypedObject]) -> tuple[type, ...]:
    """The classes that the field `status` of a kind takes."""
    resolve_types(cls)
    declared = fields_dict(cls)["status"].type
    members = get_args(declared) or (declared,)
    return tuple(each for each in members if isinstance(each, type) and each is not NoneType) or (Struct,)


def _with_metadata(obj: W, metadata: ObjectMeta) -> W:
    if isinstance(obj, DynamicObject):
        return evolve(obj, body=obj.body | {"metadata": freeze(encode(metadata))})
    return evolve(obj, metadata=metadata)


def _status_of(obj: TypedObject | DynamicObject) -> dict[str, Any]:
    if isinstance(obj, DynamicObject):
        return dict(thaw(obj.body.get("status") or {}))
    status = getattr(obj, "status", None)
    return {} if status is None else encode(status)


def _pruned(value: Any) -> Any:
    """The value without parts that equal absence; None if nothing is left."""
    if isinstance(value, dict):
        kept = {name: inner for name, item in value.items() if (inner := _pruned(item)) is not None}
        return kept or None
    if isinstance(value, list):
        return [_pruned(item) for item in value] or None
    return None if value == "" else value
