"""Validation of a JSON value against a structural schema, as in the API server.

A schema is compiled once to functions, because specs are validated in the hot paths of controllers.
"""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.meta import MASK
from gpuruntime.schema.formats import FORMATS
from gpuruntime.schema.markers import EXPECTED, INT_OR_STRING, PRESERVE_UNKNOWN
from gpuruntime.schema.patterns import choices_of, compiled, first_mismatch

__all__ = ["Finding", "Findings", "Steps", "Validator", "shown", "validator"]

Steps = tuple[str, ...]
"""The path of a value: ".name" for a field, "[0]" and "[key]" for the items of lists and maps."""

_INT64: Final = range(-(2**63), 2**63)
# The server accepts 1.0 as an integer, up to where doubles begin to skip integers.
_EXACT_FLOAT: Final = 2**53 - 1
_SHOWN: Final = 80
_NAMES: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "array": "a list",
    "object": "an object",
}


@frozen
class Finding:
    """A rule that a value violates. `masked` is shown instead of `found` if the value is sensitive."""

    steps: Steps
    rule: str
    expected: str
    found: str
    masked: str = MASK


class Findings(list[Finding]):
    """Findings up to a limit, at which validation of lists and maps ends: an untrusted value may have very many."""

    def __init__(self, most: float = math.inf) -> None:
        super().__init__()
        self.most: Final = most

    def is_full(self) -> bool:
        return len(self) >= self.most


Validator = Callable[[Any, Steps, Findings], None]
"""Adds the rules that a value at this path violates, in the order of the schema."""


def validator(schema: dict[str, Any], *, is_kind: bool = False) -> Validator:
    """The validator of JSON values of a schema. Absent fields with a default are valid.

    `is_kind` is for whole Kubernetes objects, whose metadata is validated elsewhere.
    """
    has_type, nullable, expected = _type_test(schema), bool(schema.get("nullable")), _expected_type(schema)
    parts = tuple(_parts(schema, is_kind=is_kind or "x-kubernetes-embedded-resource" in schema))

    def validate(value: Any, at: Steps, out: Findings) -> None:
        if value is None:
            if not nullable:
                out.append(Finding(at, "type", expected, shown(value)))
        elif not has_type(value):
            out.append(Finding(at, "type", expected, shown(value)))
        else:
            for part in parts:
                part(value, at, out)

    return validate


def _parts(schema: dict[str, Any], *, is_kind: bool) -> Iterator[Validator]:
    if "enum" in schema:
        yield _enum(schema)
    if INT_OR_STRING in schema:
        yield from (_string(schema), _number(schema))
    match schema.get("type"):
        case "string":
            yield _string(schema)
        case "integer" | "number":
            yield _number(schema)
        case "array":
            yield _bounds(schema, "minItems", "maxItems", "items")
            yield _items(schema)
            if schema.get("x-kubernetes-list-type") in {"set", "map"}:
                yield _unique(schema)
        case "object":
            # The server validates the metadata of an object by rules that are in no schema.
            implied = {"metadata"} if is_kind else set()
            yield _bounds(schema, "minProperties", "maxProperties", "entries")
            if "additionalProperties" in schema:
                yield _entries(schema)
                return
            yield _fields(schema, implied)
            if PRESERVE_UNKNOWN not in schema:
                yield _no_others(schema, implied)


def _type_test(schema: dict[str, Any]) -> Callable[[Any], bool]:
    if INT_OR_STRING in schema:
        return lambda value: isinstance(value, str) or _is_whole(value)
    return _TYPE_TESTS[schema.get("type")]


def _is_whole(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer() and abs(value) <= _EXACT_FLOAT
    return type(value) is int and value in _INT64


def _is_number(value: Any) -> bool:
    if type(value) not in {int, float}:
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


_TYPE_TESTS: Final[Mapping[str | None, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "integer": _is_whole,
    "number": _is_number,
    None: lambda _value: True,
}


def _enum(schema: dict[str, Any]) -> Validator:
    choices = schema["enum"]
    expected = "one of " + ", ".join(shown(choice) for choice in choices)

    def validate(value: Any, at: Steps, out: Findings) -> None:
        if value not in choices:
            out.append(Finding(at, "enum", expected, shown(value)))

    return validate


def _string(schema: dict[str, Any]) -> Validator:
    least, most, regex = schema.get("minLength", 0), schema.get("maxLength", math.inf), schema.get("pattern")
    search = None if regex is None else compiled(regex).search
    has_format = FORMATS.get(schema.get("format", ""))

    def validate(value: Any, at: Steps, out: Findings) -> None:
        if not isinstance(value, str):
            return
        size = len(value)
        if size < least:
            out.append(Finding(at, "minLength", f"at least {least} characters", shown(value)))
        if size > most:
            out.append(Finding(at, "maxLength", f"at most {most} characters", shown(value)))
            # As in the server. A pattern may take long on a very long text.
            return
        if search is not None and search(value) is None:
            out.append(_pattern_finding(value, at, schema))
        if has_format is not None and not has_format(value):
            out.append(Finding(at, "format", f"the format {schema['format']}", shown(value)))

    return validate


def _pattern_finding(value: str, at: Steps, schema: dict[str, Any]) -> Finding:
    regex = schema["pattern"]
    choices, position = choices_of(regex), first_mismatch(regex, value)
    expected = schema.get(EXPECTED) or (f"one of {', '.join(choices)}" if choices else f"a match of {regex}")
    masked = MASK if position is None else f"{MASK} with another character at position {position}"
    return Finding(at, "pattern", expected, shown(value), masked)


def _number(schema: dict[str, Any]) -> Validator:
    least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)

    def validate(value: Any, at: Steps, out: Findings) -> None:
        if isinstance(value, str):
            return
        if value < least:
            out.append(Finding(at, "minimum", f"at least {least}", shown(value)))
        if value > most:
            out.append(Finding(at, "maximum", f"at most {most}", shown(value)))

    return validate


def _bounds(schema: dict[str, Any], least_key: str, most_key: str, unit: str) -> Validator:
    least, most = schema.get(least_key, 0), schema.get(most_key, math.inf)

    def validate(value: Any, at: Steps, out: Findings) -> None:
        size = len(value)
        if size < least:
            out.append(Finding(at, least_key, f"at least {least} {unit}", shown(value)))
        if size > most:
            out.append(Finding(at, most_key, f"at most {most} {unit}", shown(value)))

    return validate


def _items(schema: dict[str, Any]) -> Validator:
    most, inner = schema.get("maxItems", math.inf), validator(schema["items"])

    def validate(value: Any, at: Steps, out: Findings) -> None:
        if len(value) > most:
            # It is refused anyway, and there may be very many items.
            return
        for index, item in enumerate(value):
            inner(item, (*at, f"[{index}]"), out)
            if out.is_full():
                return

    return validate


def _unique(schema: dict[str, Any]) -> Validator:
    """The validator of a list that is a set, or a map by some fields of its items."""
    most, keys = schema.get("maxItems", math.inf), schema.get("x-kubernetes-list-map-keys", ())
    expected = f"items that differ in {' and '.join(keys)}" if keys else "items without duplicates"
    properties = schema["items"].get("properties", {})
    defaults = [(key, properties[key].get("default")) for key in keys]

    def identity(item: Any) -> Any:
        """The key by which items must be unique; None for items of a wrong type."""
        if not defaults:
            return _typed(item)
        return tuple(_typed(item.get(key, default)) for key, default in defaults) if isinstance(item, dict) else None

    def validate(value: Any, at: Steps, out: Findings) -> None:
        if not 1 < len(value) <= most:
            return
        seen: dict[Any, int] = {}
        for index, own in enumerate(map(identity, value)):
            first = seen.setdefault(own, index)
            if first != index and own is not None:
                found = f"the same as in [{first}]"
                out.append(Finding((*at, f"[{index}]"), "x-kubernetes-list-type", expected, found))

    return validate


def _typed(item: Any) -> tuple[type, Any]:
    # In a Python set True equals 1. orjson cannot encode integers above 64 bits.
    return type(item), item if type(item) is str else json.dumps(item, sort_keys=True)


def _fields(schema: dict[str, Any], implied: Collection[str]) -> Validator:
    properties = schema.get("properties", {})
    fields = [(key, f".{key}", validator(inner)) for key, inner in properties.items() if key not in implied]
    required = [(key, f".{key}", _expected_type(properties[key])) for key in schema.get("required", ())]

    def validate(value: Any, at: Steps, out: Findings) -> None:
        for key, step, expected in required:
            if key not in value:
                out.append(Finding((*at, step), "required", expected, "nothing"))
        for key, step, inner in fields:
            if key in value:
                inner(value[key], (*at, step), out)

    return validate


def _entries(schema: dict[str, Any]) -> Validator:
    inner = validator(schema["additionalProperties"])

    def validate(value: Any, at: Steps, out: Findings) -> None:
        for key, item in value.items():
            inner(item, (*at, f"[{key}]"), out)
            if out.is_full():
                return

    return validate


def _no_others(schema: dict[str, Any], implied: Collection[str]) -> Validator:
    properties = schema.get("properties", {})
    known, expected = properties.keys() | implied, f"one of {', '.join(properties) or 'nothing'}"

    def validate(value: Any, at: Steps, out: Findings) -> None:
        if not value.keys() <= known:
            unknown = [key for key in value if key not in known]
            out += [Finding((*at, f".{key}"), "unknown", expected, "an unknown field") for key in unknown]

    return validate


def _expected_type(schema: dict[str, Any]) -> str:
    return "an integer or a string" if INT_OR_STRING in schema else _NAMES.get(schema.get("type", ""), "a value")


def shown(value: Any) -> str:
    """A scalar as JSON, truncated; the content of lists and objects is not shown, because it may be secret."""
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    if isinstance(value, str):
        value = value[: _SHOWN + 1]
    text = (
        json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if not isinstance(value, int) or value in _INT64
        else "an integer beyond 64 bits"
    )
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
