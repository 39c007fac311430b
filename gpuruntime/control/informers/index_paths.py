"""Checks that the path of an index leads to a scalar of a typed kind: an index by any other path would stay empty."""

from types import NoneType
from typing import Any, get_args, get_origin

import attrs

from gpuruntime.meta.conversion.value_hooks import is_struct, without_rules
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct, wire_name

__all__ = ["path_fault"]


def path_fault(cls: type[TypedObject], path: str) -> str:
    """What is wrong with the path of an index of a kind; empty if nothing is.

    Paths of fields that the type does not declare are accepted.
    """
    steps = path.split(".")
    target: Any = cls
    for position, step in enumerate(steps):
        here = ".".join(steps[: position + 1])
        if not is_struct(target):
            return ""
        names = _names(target)
        known = names.get(step)
        if known is None:
            meant = next((wire for wire, (python, _) in names.items() if python == step), None)
            if meant is None:
                return ""
            return f"expected the JSON name {meant}, not {step}, in {path!r}"
        target = _bare(known[1])
        if get_origin(target) is tuple:
            return f"{here} is a list: use an Index with a function of the object"
        if here == path and (is_struct(target) or get_origin(target) is FrozenDict):
            return f"{here} is an object: expected a string, a number or a boolean"
    return ""


def _names(struct: type[Struct]) -> dict[str, tuple[str, Any]]:
    """The Python name and the type of each field, by JSON name."""
    attrs.resolve_types(struct)
    return {
        wire_name(attribute): (attribute.name, attribute.type)
        for attribute in attrs.fields(struct)
        if attribute.name != "extra"
    }


def _bare(annotation: Any) -> Any:
    target = without_rules(annotation)
    members = [member for member in get_args(target) if member is not NoneType]
    return members[0] if NoneType in get_args(target) and len(members) == 1 else target
