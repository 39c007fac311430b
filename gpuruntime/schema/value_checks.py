"""Validation of a JSON value against a structural schema, as in the API server."""

import json
import math
from collections.abc import Iterator
from typing import Any, Final

from attrs import evolve, frozen

from gpuruntime.schema.formats import FORMATS
from gpuruntime.schema.markers import INT_OR_STRING, PRESERVE_UNKNOWN
from gpuruntime.schema.patterns import compiled

__all__ = ["Finding", "findings"]

_INT64: Final = range(-(2**63), 2**63)
# The server accepts 1.0 as an integer, up to where doubles begin to skip integers.
_EXACT_FLOAT: Final = 2**53 - 1
_SHOWN: Final = 80
_FREE: Final[dict[str, Any]] = {PRESERVE_UNKNOWN: True, "nullable": True}
_PYTHON_TYPES: Final = {"string": str, "boolean": bool, "array": list, "object": dict}
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
    """A rule that a value violates: its path as steps and as text, the rule, what was found and what is expected."""

    steps: tuple[str | int, ...]
    path: str
    rule: str
    found: str
    expected: str

    def below(self, step: str | int, text: str) -> "Finding":
        return evolve(self, steps=(step, *self.steps), path=text + self.path)


def findings(value: Any, schema: dict[str, Any], *, is_kind: bool = False) -> Iterator[Finding]:
    """The rules that a value violates after defaulting, in the order of the schema.

    `is_kind` is for whole Kubernetes objects, whose metadata is validated elsewhere.
    """
    if value is None:
        if not schema.get("nullable"):
            yield _finding("type", value, _expected_type(schema))
    elif not _has_type(value, schema):
        yield _finding("type", value, _expected_type(schema))
    else:
        if "enum" in schema and value not in schema["enum"]:
            yield _finding("enum", value, "one of " + ", ".join(_shown(choice) for choice in schema["enum"]))
        if isinstance(value, str):
            yield from _of_string(value, schema)
        elif isinstance(value, list):
            yield from _of_list(value, schema)
        elif isinstance(value, dict):
            yield from _of_object(value, schema, is_kind=is_kind or "x-kubernetes-embedded-resource" in schema)
        else:
            yield from _bounds(value, value, schema, "minimum", "maximum", "")


def _has_type(value: Any, schema: dict[str, Any]) -> bool:
    if INT_OR_STRING in schema:
        return isinstance(value, str) or _is_whole(value)
    match schema.get("type"):
        case "integer":
            return _is_whole(value)
        case "number":
            return _is_number(value)
        case None:
            return True
        case kind:
            return isinstance(value, _PYTHON_TYPES[kind])


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


def _of_string(value: str, schema: dict[str, Any]) -> Iterator[Finding]:
    yield from _bounds(value, len(value), schema, "minLength", "maxLength", "characters")
    if len(value) > schema.get("maxLength", math.inf):
        # As in the server. A pattern may take long on a very long text.
        return
    if "pattern" in schema and not compiled(schema["pattern"]).search(value):
        yield _finding("pattern", value, f"a match of {schema['pattern']}")
    check = FORMATS.get(schema.get("format", ""))
    if check is not None and not check(value):
        yield _finding("format", value, f"the format {schema['format']}")


def _of_list(value: list[Any], schema: dict[str, Any]) -> Iterator[Finding]:
    yield from _bounds(value, len(value), schema, "minItems", "maxItems", "items")
    if len(value) > schema.get("maxItems", math.inf):
        # It is refused anyway, and there may be very many items.
        return
    for index, item in enumerate(value):
        for finding in findings(item, schema.get("items", _FREE)):
            yield finding.below(index, f"[{index}]")
    seen: set[Any] = set()
    for index, item in enumerate(value):
        identity = _identity(item, schema)
        if identity is not None and identity in seen:
            keys = schema.get("x-kubernetes-list-map-keys")
            expected = f"items that differ in {' and '.join(keys)}" if keys else "items without duplicates"
            yield _finding("x-kubernetes-list-type", item, expected).below(index, f"[{index}]")
        seen.add(identity)


def _identity(item: Any, schema: dict[str, Any]) -> Any:
    """The key by which items of a set or map must be unique; None for other lists."""
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return _typed(item)
        case "map" if isinstance(item, dict):
            return tuple(_typed(item.get(key)) for key in schema["x-kubernetes-list-map-keys"])
        case _:
            return None


def _typed(item: Any) -> tuple[type, Any]:
    # In a Python set True equals 1. orjson cannot encode integers above 64 bits.
    return type(item), json.dumps(item, sort_keys=True)


def _of_object(value: dict[str, Any], schema: dict[str, Any], *, is_kind: bool) -> Iterator[Finding]:
    yield from _bounds(value, len(value), schema, "minProperties", "maxProperties", "entries")
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    # The server validates the metadata of an object by rules that are in no schema.
    implied = {"metadata"} if is_kind else set()
    for key in schema.get("required", ()):
        if key not in value:
            yield Finding((key,), f".{key}", "required", "nothing", _expected_type(properties[key]))
    for key in (key for key in properties if key in value and key not in implied):
        for finding in findings(value[key], properties[key]):
            yield finding.below(key, f".{key}")
    for key in (key for key in value if key not in properties and key not in implied):
        if others is not None:
            for finding in findings(value[key], others):
                yield finding.below(key, f"[{key}]")
        elif PRESERVE_UNKNOWN not in schema:
            known = ", ".join(properties) or "nothing"
            yield Finding((key,), f".{key}", "unknown", "an unknown field", f"one of {known}")


def _bounds(
    value: Any, size: float, schema: dict[str, Any], least_key: str, most_key: str, unit: str
) -> Iterator[Finding]:
    least, most = schema.get(least_key), schema.get(most_key)
    if least is not None and size < least:
        yield _finding(least_key, value, f"at least {least} {unit}".rstrip())
    if most is not None and size > most:
        yield _finding(most_key, value, f"at most {most} {unit}".rstrip())


def _finding(rule: str, value: Any, expected: str) -> Finding:
    return Finding((), "", rule, _shown(value), expected)


def _expected_type(schema: dict[str, Any]) -> str:
    return "an integer or a string" if INT_OR_STRING in schema else _NAMES.get(schema.get("type", ""), "a value")


def _shown(value: Any) -> str:
    """A scalar as JSON, truncated; the content of lists and objects is not shown, because it may be secret."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, str):
        value = value[: _SHOWN + 1]
    text = (
        json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if not isinstance(value, int) or value in _INT64
        else "an integer beyond 64 bits"
    )
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
