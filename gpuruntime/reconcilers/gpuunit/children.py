"""Which unit a Deployment or a Service belongs to, and what is cached of those that belong to no unit."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OWNER, OWNER_UID
from gpuruntime.control import Change, Index, Storage, eager, trim_metadata
from gpuruntime.desired.units.names import CHILD_PREFIX, child_name
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from gpuruntime.meta import ObjectKey, ObjectMeta

__all__ = ["BY_UNIT", "DEPLOYMENTS", "SERVICES", "certain_unit", "units_of_child"]

_RESOURCE: Final = f"{GPUUnit.KIND.plural}.{GPUUnit.KIND.group}/"


def certain_unit(meta: ObjectMeta) -> str:
    """The name of the unit of a child, "" unless its annotation and its own name agree on it."""
    name = _unit(meta.name, meta.annotations)
    return name if name and child_name(name) == meta.name else ""


def units_of_child(change: Change[Any]) -> Iterable[ObjectKey]:
    """The units to reconcile when a Deployment or Service changes: the one that it was created for, the one that owns
    it, and the one whose child would have its name.
    """
    states = [state.metadata for state in (change.before, change.after) if state is not None]
    return dict.fromkeys(ObjectKey(meta.namespace, name) for meta in states for name in _concerned(meta))


def _concerned(meta: ObjectMeta) -> Iterator[str]:
    made_for = _unit(meta.name, meta.annotations)
    if made_for:
        yield made_for
    kind = GPUUnit.KIND
    yield from (each.name for each in meta.owner_references if (each.group, each.kind) == (kind.group, kind.kind))
    if meta.name.startswith(CHILD_PREFIX):
        yield meta.name.removeprefix(CHILD_PREFIX)


def _unit(name: str, annotations: Mapping[str, str]) -> str:
    """The unit that an object was created for by its annotations, "" if it has none. Without the annotation that names
    the unit, the name of the object decides.
    """
    if OWNER_UID not in annotations:
        return ""
    owner = annotations.get(OWNER, "")
    return owner.removeprefix(_RESOURCE) if owner.startswith(_RESOURCE) else name.removeprefix(CHILD_PREFIX)


def _units(raw: Mapping[str, Any]) -> Iterable[str]:
    metadata = raw["metadata"]
    name = _unit(metadata["name"], metadata.get("annotations") or {})
    return (name,) if name else ()


def _lean(raw: dict[str, Any]) -> dict[str, Any]:
    """The object without managed fields; if it cannot be a child, its identity only."""
    metadata = trim_metadata(raw)["metadata"]
    if metadata["name"].startswith(CHILD_PREFIX) or OWNER_UID in (metadata.get("annotations") or {}):
        return raw
    identity = {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in metadata}
    return {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind"), "metadata": identity}


def _lean_deployment(raw: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"selector": {}, "template": {}}, **_lean(raw)}


BY_UNIT: Final = Index("unit", _units)
DEPLOYMENTS: Final[Storage[Deployment]] = eager(Deployment, _lean_deployment)
SERVICES: Final[Storage[Service]] = eager(Service, _lean)
