"""Writing a status only when it says something new."""

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import evolve, fields_dict

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
    """Give the object that was read this status; the object with it, or None if there was nothing to write.

    What is given back has the status as it was sent and the metadata as it is then, without managed_fields.

    A typed object takes the Struct of its status, a dynamic one a mapping. Build conditions with `set_condition`, which
    leaves the time of a condition alone while its status is the same.

    Guarantees: nothing but the status is written, whatever else of the object was changed; a status that differs only
    in null, "", [] and {} is not written; a change that somebody made since the object was read is never overwritten.

    Raises:
        ConflictError: the object changed since it was read; read it again and decide again.
        NotFoundError: the object is gone.
        TypeError: the object has no status, or not one of this type.
        ValueError: the object was not read from a server.
        KubeError: whatever else a request may end with.
    """
    changed = _with_status(obj, new_status)
    before, after = _status_of(obj), _status_of(changed)
    if _pruned(before) == _pruned(after):
        return None
    meta = obj.metadata
    if not meta.resource_version:
        raise ValueError(f"expected {obj.kind} {obj.key} as it was read, got one without resourceVersion")
    # An update of the status writes labels, too, for some built-in kinds. The version makes a patch conflict.
    patch = JsonPatch(
        [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version},
            {"op": "add", "path": "/status", "value": after},
        ]
    )
    # The caller has the rest already.
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
    expected = Struct if before is None else type(before)
    if not isinstance(status, expected):
        found = type(status).__qualname__
        raise TypeError(f"expected the status type of {obj.kind} {obj.key}, {expected.__qualname__}, got {found}")
    # mypy knows the fields of the bound only; the field was looked up above.
    return evolve(obj, status=status)  # type: ignore[call-arg]  # see above


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
    """The value without what is the same when it is absent; None if nothing is left."""
    if isinstance(value, dict):
        kept = {name: inner for name, item in value.items() if (inner := _pruned(item)) is not None}
        return kept or None
    if isinstance(value, list):
        return [_pruned(item) for item in value] or None
    return None if value == "" else value
