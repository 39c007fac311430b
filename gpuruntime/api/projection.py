"""Copies of values by the fields that their types share, and types with the fields of another: patches and views.

No code here names a field, so a field that is added to a spec is in all of them.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from attrs import NOTHING, Attribute, fields, fields_dict

from gpuruntime.meta import EMPTY, Immutable, Struct, default_of
from gpuruntime.schema import DECLARED_IN

__all__ = ["field_values", "immutable_fields", "optional_fields", "patch_of", "project", "view_of"]

S = TypeVar("S", bound=Struct)
FieldTransformer = Callable[[type, list["Attribute[Any]"]], list["Attribute[Any]"]]

_ABSENT: Final = (None, (), EMPTY)


def field_values(source: Struct, cls: type[Struct]) -> dict[str, Any]:
    """The values of the fields that `cls` declares or inherits, by Python name; `source` is a value of that type."""
    return {name: getattr(source, name) for name in _names(cls)}


def project(source: Struct, cls: type[S], **changes: Any) -> S:
    """A value of type `cls` with the fields that it shares with `source`, and these changes.

    Shared are the fields of the nearest class from which both types derive. None stands for the default where the
    field of `cls` has another one. Unknown fields of `source` are not copied.

    Raises:
        TypeError: they share no field, or a required field of `cls` is missing.
    """
    # mypy doubts that a class is hashable.
    types: Any = (type(source), cls)
    values = {
        name: value
        for name, is_nullable in _shared(*types)
        if (value := getattr(source, name)) is not None or is_nullable
    }
    return cls(**(values | changes))


def immutable_fields(of: type[Struct]) -> FieldTransformer:
    """For `@frozen(field_transformer=immutable_fields(Base))` on a class derived from it: its fields are immutable."""

    def transform(cls: type, attributes: list["Attribute[Any]"]) -> list["Attribute[Any]"]:
        return [
            _retyped(cls, attribute, Annotated[attribute.type, Immutable()])
            if attribute.name in _names(of)
            else attribute
            for attribute in attributes
        ]

    return transform


def patch_of(spec: type[Struct], *, without: type[Struct] = Struct) -> FieldTransformer:
    """For `@frozen(field_transformer=patch_of(Spec))`: adds the fields of a spec type, as a merge patch has them.

    Each is optional and keeps its rules; the rules of the whole spec are not those of a patch. Fields of `without` are
    left out.
    """

    def transform(cls: type, own: list["Attribute[Any]"]) -> list["Attribute[Any]"]:
        left_out = fields_dict(without)
        added = [_added(cls, attribute, spec) for attribute in fields(spec) if attribute.name not in left_out]
        return added + own

    return transform


def view_of(spec: type[Struct]) -> FieldTransformer:
    """For `@frozen(field_transformer=view_of(Spec))` on a class derived from the spec type: a view of it.

    The fields of the spec have no rules, because an object may be older than a rule. They have no defaults either, so
    that a view shows the value of each field; only empty lists and maps are omitted. Required fields come first.
    """

    def transform(cls: type, attributes: list["Attribute[Any]"]) -> list["Attribute[Any]"]:
        shown = [
            _shown(cls, attribute) if attribute.name in _names(spec) else attribute.evolve(kw_only=True)
            for attribute in attributes
        ]
        return sorted(shown, key=lambda attribute: attribute.default is not NOTHING)

    return transform


def optional_fields(of: type[Struct]) -> FieldTransformer:
    """For `@frozen(field_transformer=optional_fields(Base))` on a class derived from it: a request.

    Fields of `of` have no default in the schema of the request, because generated clients send defaults.
    """

    def transform(cls: type, attributes: list["Attribute[Any]"]) -> list["Attribute[Any]"]:
        return [
            _optional(cls, attribute, attribute.type)
            if attribute.name in _names(of) and default_of(attribute) not in (NOTHING, *_ABSENT)
            else attribute
            for attribute in attributes
        ]

    return transform


def _added(cls: type, attribute: "Attribute[Any]", spec: type[Struct]) -> "Attribute[Any]":
    metadata: Mapping[Any, Any] = {**attribute.metadata, DECLARED_IN: spec}
    return _optional(cls, attribute, attribute.type).evolve(inherited=False, metadata=metadata)


def _shown(cls: type, attribute: "Attribute[Any]") -> "Attribute[Any]":
    # Annotated flattens, so the rules of all layers are at the outside.
    plain = get_args(attribute.type)[0] if get_origin(attribute.type) is Annotated else attribute.type
    if default_of(attribute) in _ABSENT:
        return _retyped(cls, attribute, plain).evolve(kw_only=True)
    return _optional(cls, attribute, plain)


def _optional(cls: type, attribute: "Attribute[Any]", annotation: Any) -> "Attribute[Any]":
    nullable = Union[annotation, None]  # noqa: UP007 -- at run time
    return _retyped(cls, attribute, nullable).evolve(default=None, kw_only=True)


def _retyped(cls: type, attribute: "Attribute[Any]", annotation: Any) -> "Attribute[Any]":
    # attrs.resolve_types takes the types of fields from the annotations of the class.
    cls.__annotations__[attribute.name] = annotation
    return attribute.evolve(type=annotation)


def _names(cls: type[Struct]) -> tuple[str, ...]:
    """The names of all fields but `extra`."""
    return tuple(attribute.name for attribute in fields(cls) if attribute.name != "extra")


@cache
def _shared(source: Any, target: Any) -> tuple[tuple[str, bool], ...]:
    """The names of the shared fields, and whether None is a value of the target's field."""
    common = next(base for base in target.__mro__ if base in source.__mro__)
    names = _names(common) if issubclass(common, Struct) else ()
    if not names:
        raise TypeError(f"{source.__qualname__} and {target.__qualname__} share no field: expected a common base")
    of_target = fields_dict(target)
    return tuple((name, default_of(of_target[name]) is None) for name in names)
