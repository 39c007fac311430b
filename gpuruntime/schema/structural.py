"""Structural OpenAPI v3 schemas from Struct types.

The schema matches the Python type in both directions:

- A field without a Python default is required. `X | None = None` is optional and not nullable: the server treats an
  explicit null as absent.
- Every other default is also the server's default, because encoding omits a field that equals its default. Empty tuples
  and maps need no default: absence means the same. A Struct is a default only if it has defaults inside.
- `int` is a 64-bit integer; `float` accepts integers as well; `str | int` is int-or-string. `Any` accepts any JSON,
  including null.
- Unknown fields are pruned, except under `PreserveUnknown`, `Any` and `FrozenDict[str, Any]`.
"""

from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import attrs
from attrs import NOTHING, Attribute, evolve, frozen

from gpuruntime.meta import (
    Atomic,
    Cel,
    Condition,
    Default,
    Embedded,
    FrozenDict,
    Immutable,
    MapOf,
    ObjectMeta,
    Required,
    SetOf,
    Struct,
    TypedObject,
    encode,
    thaw,
)
from gpuruntime.meta.structs import default_of, forgotten_field, wire_name
from gpuruntime.schema.defaulting import completed
from gpuruntime.schema.descriptions import class_description, field_descriptions
from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.immutability import absent_field_rule, present_field_rule
from gpuruntime.schema.markers import INT_OR_STRING, PRESERVE_UNKNOWN, RULES, apply_rules, cel_rule

__all__ = ["TYPE", "explained_schema", "peeled", "schema_of"]

TYPE: Final = "x-type"
"""The key of the Python type in a schema that was made with `typed`."""

_SCALARS: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    str: {"type": "string"},
}
_TYPE_FIELDS: Final = {
    "apiVersion": {
        "type": "string",
        "description": "The group and version of the schema that this object is written in.",
    },
    "kind": {"type": "string", "description": "The kind of this object."},
}
# Users and tools expect these to be objects in every kind, and only objects can get more fields.
_OBJECTS: Final = frozenset({"spec", "status"})


@frozen
class _Place:
    path: str
    described: bool
    inside: tuple[type, ...] = ()
    # Whether the server can correlate a new value with its old one: not inside lists, unless their items have keys.
    correlated: bool = True
    typed: bool = False
    explained: bool = False

    def at(self, step: str) -> "_Place":
        return evolve(self, path=self.path + step)


def schema_of(cls: type[Struct], *, described: bool = True, typed: bool = False) -> dict[str, Any]:
    """The schema of a type as plain dicts and lists; that of a kind has `apiVersion`, `kind` and `metadata`.

    Descriptions are read from source files, unless `described` is false. With `typed`, the schema of each nested type
    has the Python type at `TYPE`, for documents that give each type a schema of its own.

    Raises:
        DefinitionError: the type has no schema, such as a recursive one; the message names the field.
    """
    return _struct(cls, _Place(cls.__qualname__, described, typed=typed))


def explained_schema(cls: type[Struct]) -> dict[str, Any]:
    """The schema for validation in Python: without descriptions of fields, with `EXPECTED` and `CHECKED`."""
    return _struct(cls, _Place(cls.__qualname__, described=False, explained=True))


def _struct(cls: type[Struct], place: _Place) -> dict[str, Any]:
    if cls in place.inside:
        raise DefinitionError(
            place.path,
            f"{cls.__qualname__} is recursive, which a schema cannot be; use FrozenDict[str, Any] for the inner one",
        )
    inner = evolve(place, inside=(*place.inside, cls))
    attrs.resolve_types(cls)
    texts = field_descriptions(cls) if place.described else {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    declared = getattr(cls, "RULES", ())
    rules = [cel_rule(rule, explained=place.explained) for rule in declared if isinstance(rule, Cel)]
    if issubclass(cls, TypedObject):
        required += list(_TYPE_FIELDS) if place.inside else []
        properties |= {name: dict(schema) for name, schema in _TYPE_FIELDS.items()} | {"metadata": {"type": "object"}}
    _require_fields(cls)
    for attribute in attrs.fields(cls):
        if attribute.name == "extra" or (attribute.name == "metadata" and issubclass(cls, TypedObject)):
            continue
        wire = wire_name(attribute)
        field = _Field.of(attribute, wire, inner.at(f".{wire}"))
        schema = field.schema(texts.get(attribute.name, ""), cls)
        if issubclass(cls, TypedObject) and wire in _OBJECTS and schema.get("type", "object") != "object":
            raise DefinitionError(
                field.place.path, f"is of type {schema['type']}, expected an object: put it into a Struct, as a field"
            )
        properties[wire] = schema
        if field.required or (field.default is NOTHING and "default" not in schema):
            required.append(wire)
        if field.immutable and not (wire in required or "default" in schema):
            rules.append(absent_field_rule(wire, field.place.path))
    described = {"description": text} if place.described and (text := class_description(cls)) else {}
    return {
        **described,
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        **({RULES: rules} if rules else {}),
    }


@frozen
class _Field:
    wire: str
    target: Any
    rules: tuple[Any, ...]
    nullable: bool
    default: Any
    immutable: bool
    required: bool
    place: _Place

    @classmethod
    def of(cls, attribute: "Attribute[Any]", wire: str, place: _Place) -> "_Field":
        target, rules, nullable = peeled(attribute.type)
        if target == tuple[Condition, ...] and not any(isinstance(rule, MapOf | SetOf | Atomic) for rule in rules):
            rules = (*rules, MapOf("type"))
        immutable = any(isinstance(rule, Immutable) for rule in rules)
        if immutable and not place.correlated:
            raise DefinitionError(
                place.path, "Immutable inside a list without keys or an atomic map: make the list or map immutable"
            )
        required = Required() in rules
        return cls(wire, target, rules, nullable, default_of(attribute), immutable, required, place)

    def schema(self, text: str, owner: type[Struct]) -> dict[str, Any]:
        if self.nullable and self.default is not None:
            found = "no default" if self.default is NOTHING else f"default {self.default!r}"
            raise DefinitionError(
                self.place.path, f"may be None and has {found}; None cannot be stored: the default must be None"
            )
        schema = _value(self.target, self.rules, self.place)
        if text:
            schema = {"description": text} | {key: item for key, item in schema.items() if key != "description"}
        default = self._default(schema, owner)
        if default is not None:
            schema["default"] = default
        if self.immutable and (self.required or self.default is NOTHING or default is not None):
            schema.setdefault(RULES, []).append(present_field_rule(self.wire))
        return schema

    def _default(self, schema: dict[str, Any], owner: type[Struct]) -> Any:
        """The server's default, or None: null is not a default."""
        declared = [rule.value for rule in self.rules if isinstance(rule, Default)]
        if declared and self.required:
            raise DefinitionError(self.place.path, "is Required and has a Default, which fills it in; drop one")
        if declared:
            if self.default is not NOTHING and self.default not in (None, (), FrozenDict()):
                raise DefinitionError(
                    self.place.path,
                    f"Default({declared[0]!r}) conflicts with the Python default {self.default!r}; drop one",
                )
            return thaw(declared[0])
        # Absent metadata of an embedded object is "", 0 or empty in Python, and stays absent on the server. A status is
        # written by the controller and has no default.
        is_status = self.wire == "status" and issubclass(owner, TypedObject)
        if self.required or self.default is NOTHING or self.default is None or owner is ObjectMeta or is_status:
            return None
        plain = _plain(self.default)
        if isinstance(self.default, Struct):
            return plain if completed(plain, schema) else None
        return None if plain in ([], {}) else plain


def peeled(annotation: Any) -> tuple[Any, tuple[Any, ...], bool]:
    """The type without `Annotated` and `None`, the rules of all layers, and whether it may be None."""
    rules: tuple[Any, ...] = ()
    nullable = False
    while True:
        args = get_args(annotation)
        if get_origin(annotation) is Annotated:
            annotation, rules = args[0], (*args[1:], *rules)
        elif get_origin(annotation) in {Union, UnionType} and NoneType in args:
            nullable = True
            annotation = Union[tuple(member for member in args if member is not NoneType)]  # noqa: UP007 -- at run time
        else:
            return annotation, rules, nullable


def _value(target: Any, rules: tuple[Any, ...], place: _Place) -> dict[str, Any]:
    schema = _shape(target, rules, place)
    apply_rules(schema, rules, place.path, explained=place.explained)
    return schema


def _shape(target: Any, rules: tuple[Any, ...], place: _Place) -> dict[str, Any]:
    if target is Any:
        free = {PRESERVE_UNKNOWN: True}
        return {"type": "object", **free} if Embedded() in rules else {**free, "nullable": True}
    if target in _SCALARS:
        return dict(_SCALARS[target])
    inner = evolve(place, correlated=place.correlated and Atomic() not in rules)
    if isinstance(target, type) and issubclass(target, Struct):
        embedded = {"x-kubernetes-embedded-resource": True} if issubclass(target, TypedObject) else {}
        named = {TYPE: target} if place.typed else {}
        return _struct(target, inner) | embedded | named
    if get_origin(target) in {tuple, FrozenDict}:
        return _collection(target, rules, inner)
    return _scalar_choice(target, place)


def _collection(target: Any, rules: tuple[Any, ...], place: _Place) -> dict[str, Any]:
    args = get_args(target)
    if get_origin(target) is tuple:
        if args[1:] != (Ellipsis,):
            raise DefinitionError(
                place.path,
                f"has type {target}, a list of fixed length; write tuple[X, ...] with Items(minimum=..., maximum=...)",
            )
        keyed = any(isinstance(rule, MapOf) for rule in rules)
        items = evolve(place.at("[]"), correlated=place.correlated and keyed)
        return {"type": "array", "items": _member(args[0], items)}
    if args[0] is not str:
        raise DefinitionError(place.path, f"has type {target}; the keys of a map are strings: FrozenDict[str, X]")
    if args[1] is Any:
        return {"type": "object", PRESERVE_UNKNOWN: True}
    return {"type": "object", "additionalProperties": _member(args[1], place.at("{}"))}


def _member(annotation: Any, place: _Place) -> dict[str, Any]:
    target, rules, nullable = peeled(annotation)
    if nullable:
        raise DefinitionError(place.path, "may be None, but a list or map cannot hold null; drop the None")
    if any(isinstance(rule, Immutable | Default) for rule in rules):
        raise DefinitionError(
            place.path, "Immutable and Default are rules of fields, not of the items of a list or map"
        )
    return _value(target, rules, place)


def _scalar_choice(target: Any, place: _Place) -> dict[str, Any]:
    if get_origin(target) in {Union, UnionType}:
        members = set(get_args(target))
        if members == {int, str}:
            return {INT_OR_STRING: True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
        if members == {int, float}:
            return dict(_SCALARS[float])
    choices: list[Any] = []
    if get_origin(target) is Literal:
        choices = list(get_args(target))
    elif isinstance(target, type) and issubclass(target, Enum):
        choices = [member.value for member in target]
    kinds = {type(choice) for choice in choices}
    if len(kinds) == 1 and kinds <= set(_SCALARS):
        return {**_SCALARS[kinds.pop()], "enum": choices}
    raise DefinitionError(
        place.path,
        f"has type {target}, which a schema cannot express; expected a scalar, choices of one type, Any, Struct, "
        "tuple[X, ...], FrozenDict[str, X], str | int or int | float",
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return encode(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _require_fields(cls: type[Struct]) -> None:
    """Refuse a class without its decorator: attrs would not know its fields, and the schema would be empty."""
    forgotten = forgotten_field(cls)
    if forgotten is not None:
        raise DefinitionError(forgotten, f"is not a field; decorate {forgotten.rpartition('.')[0]} with @frozen")
