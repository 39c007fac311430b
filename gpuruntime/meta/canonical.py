"""The canonical form of a wire type: fields that this version knows and that differ from their defaults."""

from functools import cache
from typing import Any

from attrs import fields

from gpuruntime.meta.frozen_mapping import thaw
from gpuruntime.meta.structs import Struct, default_of, wire_name

__all__ = ["known_fields"]


def known_fields(struct: Struct) -> dict[str, Any]:
    """The JSON object of a wire type without unknown fields and without fields that have their default value.

    Guarantees: equal for two structs of one type that mean the same to this version, whether a default is omitted or
    filled in by the server, and whatever unknown fields another version has added.
    """
    # mypy doubts that a class is hashable.
    cls: Any = type(struct)
    known: dict[str, Any] = {}
    for name, on_the_wire, default, default_form in _attributes(cls):
        value = getattr(struct, name)
        # Most fields have their default value, and most of those are the identical object.
        if value is not default and (form := _form(value)) != default_form:
            known[on_the_wire] = form
    return known


@cache
def _attributes(cls: type[Struct]) -> tuple[tuple[str, str, Any, Any], ...]:
    """Name, wire name, default, and JSON form of the default of each field except `extra`."""
    known = [attribute for attribute in fields(cls) if attribute.name != "extra"]
    defaults = [default_of(attribute) for attribute in known]
    return tuple(
        (attribute.name, wire_name(attribute), default, _form(default))
        for attribute, default in zip(known, defaults, strict=True)
    )


def _form(value: Any) -> Any:
    if type(value) is str:
        return value
    if isinstance(value, Struct):
        return known_fields(value)
    if isinstance(value, tuple):
        return [_form(item) for item in value]
    return thaw(value)
