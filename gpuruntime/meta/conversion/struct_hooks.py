"""Codec hooks for Structs; the table of fields is compiled once per class, on first use."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, get_args

import attrs
from attrs import NOTHING, frozen
from cattrs import Converter
from cattrs.fns import identity

from gpuruntime.meta.conversion.value_hooks import (
    UnsupportedTypeError,
    is_struct,
    require_supported,
    unstructure_hook,
    without_rules,
)
from gpuruntime.meta.decode_errors import Failure, Mismatch, failures_of
from gpuruntime.meta.frozen_mapping import FrozenDict, freeze, thaw
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.structs import Struct, default_of, forgotten_field, is_sensitive, wire_name

__all__ = ["register_struct_hooks", "require_decodable"]

_EXACT = frozenset({str, int, float, bool})


@frozen
class _Field:
    attribute: str
    wire: str
    target: Any
    exact: type | None
    default: Any
    sensitive: bool


def register_struct_hooks(converter: Converter) -> None:
    converter.register_structure_hook_factory(is_struct, lambda cls: _Decoder(cls, converter))
    converter.register_unstructure_hook_factory(is_struct, lambda cls: _Encoder(cls, converter))


class _Decoder:
    """The structure hook of one class. It iterates over the keys that are present, not over all fields."""

    def __init__(self, cls: type[Struct], converter: Converter) -> None:
        self._cls = cls
        self._converter = converter
        self._type_fields = _type_fields(cls)
        self._table: dict[str, tuple[Any, ...]] | None = None
        self._required: list[str] = []

    def __call__(self, value: Any, _target: Any) -> Struct:
        # Not compiled in the constructor, because a class may refer to itself.
        table = self._compile() if self._table is None else self._table
        if not isinstance(value, dict):
            raise Mismatch.expected("an object", value)
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        failures: list[Failure] = []
        for wire, item in value.items():
            row = table.get(wire)
            if row is None:
                failures += self._keep_unknown(wire, item, extra)
                continue
            attribute, exact, hook, target, default, sensitive = row
            if type(item) is exact:
                decoded = item
            elif item is None and default is not NOTHING:
                extra[wire] = None
                continue
            else:
                try:
                    decoded = hook(item, target)
                except (Mismatch, ValueError) as error:
                    failures += failures_of(error, wire, sensitive=sensitive)
                    continue
            if default is not None and decoded == default:
                extra[wire] = freeze(item)
            else:
                known[attribute] = decoded
        for wire in self._required:
            if wire not in value:
                failures += Mismatch.plain("required field is missing", wire).failures
        return self._construct(known, extra, failures)

    def _compile(self) -> dict[str, tuple[Any, ...]]:
        fields = _fields_of(self._cls)
        self._required = [one.wire for one in fields if one.default is NOTHING]
        self._table = {
            one.wire: (
                one.attribute,
                one.exact,
                self._converter.get_structure_hook(one.target),
                one.target,
                one.default,
                one.sensitive,
            )
            for one in fields
        }
        return self._table

    def _keep_unknown(self, wire: Any, item: Any, extra: dict[str, Any]) -> Sequence[Failure]:
        if wire in self._type_fields:
            expected = self._type_fields[wire]
            return () if item == expected else failures_of(Mismatch.expected(repr(expected), item), wire)
        if type(wire) is not str:
            return Mismatch.expected("a string as key", wire).failures
        try:
            extra[wire] = freeze(item)
        except TypeError as error:
            return failures_of(error, wire)
        return ()

    def _construct(self, known: dict[str, Any], extra: dict[str, Any], failures: list[Failure]) -> Struct:
        if failures:
            raise Mismatch(failures)
        if extra:
            known["extra"] = FrozenDict(extra)
        try:
            return self._cls(**known)
        except (ValueError, TypeError) as error:
            raise Mismatch(failures_of(error)) from error


class _Encoder:
    """The unstructure hook of one class."""

    def __init__(self, cls: type[Struct], converter: Converter) -> None:
        self._cls = cls
        self._converter = converter
        self._type_fields = _type_fields(cls)
        self._rows: list[tuple[str, Any, Any]] | None = None
        self._wires = set(self._type_fields)
        self._values_of: Callable[[Struct], tuple[Any, ...]] = lambda _struct: ()

    def __call__(self, struct: Struct) -> dict[str, Any]:
        rows = self._compile() if self._rows is None else self._rows
        extra = struct.extra
        encoded: dict[str, Any] = dict(self._type_fields)
        if not extra:
            for (wire, hook, default), value in zip(rows, self._values_of(struct), strict=False):
                if value is not default and (default is None or value != default):
                    encoded[wire] = value if hook is None else hook(value)
            return encoded
        for (wire, hook, default), value in zip(rows, self._values_of(struct), strict=False):
            if value is default or (default is not None and value == default):
                if wire in extra:
                    encoded[wire] = thaw(extra[wire])
            else:
                encoded[wire] = value if hook is None else hook(value)
        for wire, item in extra.items():
            if wire not in self._wires:
                encoded[wire] = thaw(item)
        return encoded

    def _compile(self) -> list[tuple[str, Any, Any]]:
        fields = _fields_of(self._cls)
        hooks = [unstructure_hook(one.target, self._converter) for one in fields]
        self._wires |= {one.wire for one in fields}
        # Two more names, because attrgetter returns a tuple only for more than one.
        self._values_of = attrgetter(*(one.attribute for one in fields), "extra", "extra")
        self._rows = [
            (one.wire, None if hook is identity else hook, one.default) for one, hook in zip(fields, hooks, strict=True)
        ]
        return self._rows


@cache
def require_decodable(cls: type[Struct]) -> None:
    """Check that a class, and all classes in its fields, can be decoded.

    Raises:
        UnsupportedTypeError: an invalid declaration; the message names the field.
    """
    waiting, seen = [cls], {cls}
    while waiting:
        for one in _fields_of(waiting.pop()):
            found = set(_structs_in(one.target)) - seen
            waiting += found
            seen |= found


def _structs_in(target: Any) -> Iterator[type[Struct]]:
    if is_struct(target):
        yield target
    for member in get_args(target):
        yield from _structs_in(member)


def _fields_of(cls: type[Struct]) -> list[_Field]:
    forgotten = forgotten_field(cls)
    if forgotten is not None:
        raise UnsupportedTypeError(f"{forgotten} is not a field: decorate {forgotten.rpartition('.')[0]} with @frozen")
    attrs.resolve_types(cls)
    found = []
    for attribute in attrs.fields(cls):
        if attribute.name == "extra":
            continue
        target = without_rules(attribute.type)
        require_supported(target, f"field {attribute.name} of {cls.__qualname__}")
        members = set(get_args(target)) - {NoneType} if NoneType in get_args(target) else {target}
        found.append(
            _Field(
                attribute=attribute.name,
                wire=wire_name(attribute),
                target=target,
                exact=_exact(members),
                default=default_of(attribute),
                sensitive=is_sensitive(attribute),
            )
        )
    return found


def _exact(members: set[Any]) -> type | None:
    """The type whose values need no decoding: a scalar, or a Struct that was decoded before."""
    only = members.pop() if len(members) == 1 else None
    return only if only in _EXACT or is_struct(only) else None


def _type_fields(cls: type[Struct]) -> dict[str, str]:
    kind = getattr(cls, "KIND", None)
    if not isinstance(kind, ResourceKind):
        return {}
    return {"apiVersion": kind.api_version, "kind": kind.kind}
