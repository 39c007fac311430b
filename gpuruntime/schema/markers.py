"""Validation markers of a field, written into its schema. A marker that does not fit the type is refused."""

from collections.abc import Sequence
from typing import Any, Final

from gpuruntime.meta import (
    Atomic,
    Cel,
    Embedded,
    Format,
    Immutable,
    Items,
    Keys,
    Length,
    MapOf,
    Pattern,
    PreserveUnknown,
    Properties,
    QuantityRule,
    Range,
    SetOf,
)
from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.patterns import PatternError, compiled

__all__ = ["CHECKED", "EXPECTED", "INT_OR_STRING", "PRESERVE_UNKNOWN", "RULES", "apply_rules", "cel_rule"]

INT_OR_STRING: Final = "x-kubernetes-int-or-string"
PRESERVE_UNKNOWN: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"
EXPECTED: Final = "x-expected"
"""In schemas for validation in Python: the description of the pattern."""
CHECKED: Final = "x-checked"
"""In schemas for validation in Python: that a CEL rule has a form in Python."""

# The texts that `gpuruntime.meta.parse_quantity` accepts, with the same length limit.
_QUANTITY_LENGTH: Final = 256
_SUFFIX: Final = r"([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,4})?$"
_QUANTITY: Final = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)" + _SUFFIX
_POSITIVE_QUANTITY: Final = r"^\+?([0-9]*[1-9][0-9]*(\.[0-9]*)?|[0-9]*\.[0-9]*[1-9][0-9]*)" + _SUFFIX

_BOUNDS: Final = {
    Range: ("minimum", "maximum"),
    Length: ("minLength", "maxLength"),
    Items: ("minItems", "maxItems"),
    Properties: ("minProperties", "maxProperties"),
}
_KINDS: Final[dict[type, frozenset[str]]] = {
    Range: frozenset({"integer", "number"}),
    Length: frozenset({"string", INT_OR_STRING}),
    Pattern: frozenset({"string", INT_OR_STRING}),
    Format: frozenset({"string"}),
    QuantityRule: frozenset({"string", INT_OR_STRING}),
    Items: frozenset({"array"}),
    SetOf: frozenset({"array"}),
    MapOf: frozenset({"array"}),
    Properties: frozenset({"object"}),
    Atomic: frozenset({"array", "object"}),
    Embedded: frozenset({"object"}),
    PreserveUnknown: frozenset({"object"}),
    Keys: frozenset({"object"}),
}


def apply_rules(schema: dict[str, Any], rules: Sequence[Any], where: str, *, explained: bool = False) -> None:
    """Write the rules into the schema. Rules in Python and other metadata in `Annotated` are ignored.

    With `explained`, the schema is for validation in Python: it has `EXPECTED` and `CHECKED`.

    Raises:
        DefinitionError: a rule does not fit the type, or two rules set the same keyword.
    """
    for rule in rules:
        if isinstance(rule, Cel | Immutable) and _is_opaque(schema):
            raise DefinitionError(where, f"{type(rule).__name__} is used on an untyped value, which CEL cannot read")
        if isinstance(rule, Cel):
            schema.setdefault(RULES, []).append(cel_rule(rule, explained=explained))
            continue
        allowed = _KINDS.get(type(rule))
        if allowed is None:
            continue
        kind = _kind(schema)
        if kind not in allowed:
            raise DefinitionError(where, f"{rule} is used on {_named(kind)}, expected {_or(allowed)}")
        for key, value in _keywords(rule, schema, where).items():
            if value is None:
                continue
            if key in schema:
                raise DefinitionError(where, f"{rule} sets {key} to {value!r}, but it is already {schema[key]!r}")
            schema[key] = value
        if explained and (text := _explanation(rule)):
            schema[EXPECTED] = text


def _explanation(rule: Any) -> str | None:
    match rule:
        case Pattern(description=text):
            return text
        case QuantityRule():
            return rule.expected
        case _:
            return None


def cel_rule(cel: Cel, *, explained: bool = False) -> dict[str, Any]:
    entries = {
        "rule": cel.rule,
        "message": cel.message,
        "messageExpression": cel.message_expression,
        "reason": cel.reason,
        "fieldPath": cel.field_path,
        "optionalOldSelf": cel.optional_old_self,
        CHECKED: (explained and cel.check is not None) or None,
    }
    return {key: value for key, value in entries.items() if value is not None}


def _keywords(rule: Any, schema: dict[str, Any], where: str) -> dict[str, Any]:
    keywords: dict[str, Any]
    match rule:
        case Range() | Length() | Items() | Properties():
            _require_whole_numbers(rule, schema, where)
            least, most = _BOUNDS[type(rule)]
            keywords = {least: rule.minimum, most: rule.maximum}
        case Pattern(regex):
            _require_shared_dialect(regex, where)
            keywords = {"pattern": regex}
        case Format(name):
            # The server accepts any list for a string with a format, unless a rule about lists refuses it.
            keywords = {"format": name, "minItems": 1, "maxItems": 0}
        case QuantityRule(positive):
            # A minimum applies to numbers only, not to strings.
            minimum = 1 if positive and INT_OR_STRING in schema else None
            pattern = _POSITIVE_QUANTITY if positive else _QUANTITY
            keywords = {"maxLength": _QUANTITY_LENGTH, "pattern": pattern, "minimum": minimum}
        case MapOf(keys):
            _require_keys(schema["items"], keys, where)
            keywords = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
        case _:
            keywords = _flags(rule, schema, where)
    return keywords


def _flags(rule: Any, schema: dict[str, Any], where: str) -> dict[str, Any]:
    match rule:
        case SetOf():
            _require_scalar_items(schema["items"], where)
            return {"x-kubernetes-list-type": "set"}
        case Atomic():
            return {"x-kubernetes-list-type" if schema["type"] == "array" else "x-kubernetes-map-type": "atomic"}
        case Embedded():
            return {"x-kubernetes-embedded-resource": True}
        case Keys():
            _require_map(schema, where)
            return {}
        case _:
            # A map of untyped values already preserves unknown fields.
            return {} if PRESERVE_UNKNOWN in schema else {PRESERVE_UNKNOWN: True}


def _require_whole_numbers(rule: Any, schema: dict[str, Any], where: str) -> None:
    if schema.get("type") != "number" and any(type(bound) is float for bound in (rule.minimum, rule.maximum)):
        raise DefinitionError(where, f"{rule} has a fraction, expected whole numbers")


def _require_shared_dialect(regex: str, where: str) -> None:
    try:
        compiled(regex)
    except PatternError as error:
        raise DefinitionError(where, f"pattern {error}") from error


def _require_scalar_items(items: dict[str, Any], where: str) -> None:
    if _kind(items) in {"object", "array", "untyped"}:
        raise DefinitionError(where, f"SetOf is used on a list of {_kind(items)} values, expected scalars; use MapOf")


def _require_map(schema: dict[str, Any], where: str) -> None:
    if "properties" in schema:
        raise DefinitionError(where, "Keys is used on a Struct, expected a map: FrozenDict[str, X]")


def _require_keys(items: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    if _kind(items) != "object":
        raise DefinitionError(where, f"MapOf is used on a list of {_kind(items)} values, expected objects; use SetOf")
    properties = items.get("properties", {})
    for key in keys:
        schema = properties.get(key)
        if schema is None:
            raise DefinitionError(
                where, f"key {key!r} of MapOf is not a field of the items; expected {_or(properties)}"
            )
        if _kind(schema) in {"object", "array", "untyped"}:
            raise DefinitionError(where, f"key {key!r} of MapOf is {_named(_kind(schema))}, expected a scalar")
        if key not in items.get("required", ()) and "default" not in schema:
            raise DefinitionError(where, f"key {key!r} of MapOf may be absent; give it a default or make it required")


def _is_opaque(schema: dict[str, Any]) -> bool:
    inner = schema.get("items", schema.get("additionalProperties"))
    return _is_opaque(inner) if inner is not None else _kind(schema) == "untyped"


def _kind(schema: dict[str, Any]) -> str:
    if INT_OR_STRING in schema:
        return INT_OR_STRING
    kind: str = schema.get("type", "untyped")
    return kind


def _named(kind: str) -> str:
    return {"untyped": "an untyped value", INT_OR_STRING: "an integer or string"}.get(
        kind, f"an {kind}" if kind[0] in "aio" else f"a {kind}"
    )


def _or(names: Any) -> str:
    return " or ".join(sorted(name.removeprefix("x-kubernetes-") for name in names))
