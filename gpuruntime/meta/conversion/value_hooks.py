"""Codec hooks for field values: scalars, literals, enums, unions, lists, maps, arbitrary JSON. No type coercion.

A structure hook takes (value, target type) and raises `Mismatch`; an unstructure hook takes the value. Both follow
the conventions of cattrs, which finds them by type and caches them.
"""

from collections.abc import Callable
from enum import Enum
from operator import attrgetter
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from cattrs import Converter
from cattrs.fns import identity

from gpuruntime.meta.decode_errors import Failure, Mismatch, failures_of
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict, freeze, thaw
from gpuruntime.meta.structs import Struct

__all__ = [
    "UnsupportedTypeError",
    "is_struct",
    "register_value_hooks",
    "require_supported",
    "unstructure_hook",
    "without_rules",
]

StructureHook = Callable[[Any, Any], Any]
UnstructureHook = Callable[[Any], Any]

_SCALARS: Final = {str: "a string", int: "an integer", float: "a number", bool: "a boolean"}


class UnsupportedTypeError(TypeError):
    """A field of a Struct has a type that is mutable or cannot be decoded without loss."""


def require_supported(annotation: Any, where: str) -> None:
    """Raise UnsupportedTypeError for a field type that is not listed in `gpuruntime.meta.structs`."""
    if not _is_supported(annotation):
        raise UnsupportedTypeError(
            f"{where} has type {annotation}; expected a scalar, Literal, Enum, Any, Struct, tuple[X, ...], "
            "FrozenDict[str, X], X | None or a union of scalars"
        )


def _is_supported(annotation: Any) -> bool:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        return len(args) == 2 and args[1] is Ellipsis and _is_supported(args[0])
    if origin is FrozenDict:
        return args[0] is str and _is_supported(args[1])
    if _is_union(annotation):
        members = [member for member in args if member is not NoneType]
        return _is_supported(members[0]) if len(members) == 1 else all(member in _SCALARS for member in members)
    if origin is Literal:
        return all(type(choice) in _SCALARS for choice in args)
    return annotation is Any or annotation in _SCALARS or _is_enum(annotation) or is_struct(annotation)


def without_rules(annotation: Any) -> Any:
    """The type without `Annotated`, at every depth: decoding ignores rules, see `gpuruntime.meta.rules`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return without_rules(args[0])
    if origin in {tuple, FrozenDict}:
        return GenericAlias(origin, tuple(without_rules(member) for member in args))
    if _is_union(annotation):
        return Union[tuple(without_rules(member) for member in args)]  # noqa: UP007 -- made at run time
    return annotation


def register_value_hooks(converter: Converter) -> None:
    for scalar in _SCALARS:
        converter.register_structure_hook(scalar, _structure_scalar)
        converter.register_unstructure_hook(scalar, identity)
    converter.register_structure_hook_factory(_is_enum, lambda _type: _structure_scalar)
    converter.register_structure_hook_factory(lambda target: target is Any, lambda _type: _structure_json)
    converter.register_unstructure_hook_factory(lambda target: target is Any, lambda _type: thaw)
    converter.register_structure_hook_factory(_is_literal, lambda _type: _structure_literal)
    converter.register_unstructure_hook_factory(_is_literal, lambda _type: identity)
    converter.register_structure_hook_factory(_is_union, lambda target: _union_structurer(target, converter))
    converter.register_unstructure_hook_factory(_is_union, lambda target: _union_unstructurer(target, converter))
    converter.register_structure_hook_factory(_is_tuple, lambda target: _tuple_structurer(target, converter))
    converter.register_unstructure_hook_factory(_is_tuple, lambda target: _tuple_unstructurer(target, converter))
    converter.register_structure_hook_factory(_is_map, lambda target: _map_structurer(target, converter))
    converter.register_unstructure_hook_factory(_is_map, lambda target: _map_unstructurer(target, converter))


def unstructure_hook(target: Any, converter: Converter) -> UnstructureHook:
    """The hook for a declared type; `identity` if a value is its own JSON form."""
    # For `class Phase(str, Enum)`, cattrs would use the hook of str and leave the members to orjson.
    hook: UnstructureHook = attrgetter("value") if _is_enum(target) else converter.get_unstructure_hook(target)
    return hook


def is_struct(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, Struct)


def _is_enum(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, Enum)


def _is_literal(target: Any) -> bool:
    return get_origin(target) is Literal


def _is_union(target: Any) -> bool:
    return get_origin(target) in {Union, UnionType}


def _is_tuple(target: Any) -> bool:
    return get_origin(target) is tuple


def _is_map(target: Any) -> bool:
    return get_origin(target) is FrozenDict


def _structure_scalar(value: Any, target: Any) -> Any:
    # cattrs also uses this hook for `class Phase(str, Enum)`, because of the base class.
    if _is_enum(target):
        for member in target:
            if member.value == value and type(member.value) is type(value):
                return member
        raise Mismatch.expected(_choices([member.value for member in target]), value)
    # JSON has one number type: Go encodes the float 1.0 as 1.
    if type(value) is target or (target is float and type(value) is int):
        return value
    raise Mismatch.expected(_SCALARS[target], value)


def _structure_literal(value: Any, target: Any) -> Any:
    choices = get_args(target)
    for choice in choices:
        if choice == value and type(choice) is type(value):
            return choice
    raise Mismatch.expected(_choices(choices), value)


def _choices(values: Any) -> str:
    head = "" if len(values) == 1 else "one of "
    return head + ", ".join(repr(value) for value in values)


def _structure_json(value: Any, _target: Any) -> Any:
    try:
        return freeze(value)
    except TypeError as error:
        raise Mismatch.plain(str(error)) from error


def _union_structurer(target: Any, converter: Converter) -> StructureHook:
    members = [member for member in get_args(target) if member is not NoneType]
    nullable = NoneType in get_args(target)
    if len(members) == 1:
        member = members[0]
        hook: StructureHook = converter.get_structure_hook(member)
        return lambda value, _target: None if value is None else hook(value, member)

    accepted = {*members, int} if float in members else set(members)
    expected = " or ".join(_SCALARS[member] for member in members)

    def structure(value: Any, _target: Any) -> Any:
        if type(value) in accepted or (nullable and value is None):
            return value
        raise Mismatch.expected(expected, value)

    return structure


def _union_unstructurer(target: Any, converter: Converter) -> UnstructureHook:
    members = [member for member in get_args(target) if member is not NoneType]
    if len(members) > 1:
        return identity
    hook = unstructure_hook(members[0], converter)
    return identity if hook is identity else lambda value: None if value is None else hook(value)


def _tuple_structurer(target: Any, converter: Converter) -> StructureHook:
    member = get_args(target)[0]
    hook: StructureHook = converter.get_structure_hook(member)

    def structure(value: Any, _target: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise Mismatch.expected("a list", value)
        decoded: list[Any] = []
        failures: list[Failure] = []
        for index, item in enumerate(value):
            try:
                decoded.append(hook(item, member))
            except (Mismatch, ValueError) as error:
                failures += failures_of(error, index)
        if failures:
            raise Mismatch(failures)
        return tuple(decoded)

    return structure


def _tuple_unstructurer(target: Any, converter: Converter) -> UnstructureHook:
    hook = unstructure_hook(get_args(target)[0], converter)
    return list if hook is identity else lambda value: [hook(item) for item in value]


def _map_structurer(target: Any, converter: Converter) -> StructureHook:
    member = get_args(target)[1]
    hook: StructureHook = converter.get_structure_hook(member)

    def structure(value: Any, _target: Any) -> FrozenDict[str, Any]:
        if not isinstance(value, dict):
            raise Mismatch.expected("an object", value)
        if not value:
            return EMPTY
        decoded: dict[str, Any] = {}
        failures: list[Failure] = []
        for key, item in value.items():
            if type(key) is not str:
                failures += Mismatch.expected("a string as key", key).failures
            elif type(item) is member:
                decoded[key] = item
            else:
                try:
                    decoded[key] = hook(item, member)
                except (Mismatch, ValueError) as error:
                    failures += failures_of(error, key)
        if failures:
            raise Mismatch(failures)
        return FrozenDict(decoded)

    return structure


def _map_unstructurer(target: Any, converter: Converter) -> UnstructureHook:
    hook = unstructure_hook(get_args(target)[1], converter)
    return dict if hook is identity else lambda value: {key: hook(item) for key, item in value.items()}
