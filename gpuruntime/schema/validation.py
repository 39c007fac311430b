"""Validation of values against the rules of a type, with the same verdict as the API server."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from types import NoneType
from typing import Any, get_args

import attrs
from attrs import frozen

from gpuruntime.meta import Struct, TypedObject, encode
from gpuruntime.meta.structs import MASK, is_sensitive, wire_name
from gpuruntime.meta.value_hooks import is_struct, without_rules
from gpuruntime.schema.defaulting import completed
from gpuruntime.schema.formats import FORMATS
from gpuruntime.schema.markers import RULES
from gpuruntime.schema.structural import schema_of
from gpuruntime.schema.value_checks import Finding, findings

__all__ = ["UncheckedRule", "Violation", "unchecked_rules", "violations"]


@frozen
class Violation:
    """One rule that a value violates.

    `path` is "" for the value itself, or a path like "spec.ports[0].name". `rule` is the keyword of the schema
    ("maximum", "required", ...), or "unknown" for a field that the server would prune. `found` never quotes the value
    of a sensitive field.
    """

    path: str
    rule: str
    found: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: expected {self.expected}, got {self.found}"


@frozen
class UncheckedRule:
    """A rule that only the API server can check."""

    path: str
    rule: str


def violations(
    value: Struct | Mapping[str, Any], cls: type[Struct], *, most: int | None = None
) -> tuple[Violation, ...]:
    """All rules of the type that a value violates; empty if the API server would accept it.

    `most` limits the number of violations: an untrusted value may have tens of thousands.

    The value is an object of the type, or JSON to be decoded to one. It is validated as by a server with strict field
    validation: nulls of optional fields count as absent, defaults are filled in first, unknown fields are violations.

    Caveats:
        `unchecked_rules` are not checked, nor are `metadata`, `apiVersion` and `kind` of the object itself. The server
        accepts a number as an integer if it is one within a billionth; here it must be exact. In a field of the scale
        subresource the server refuses even 1.0.
    """
    schema = _schema(cls)
    wire = encode(value) if isinstance(value, Struct) else value
    found = findings(completed(wire, schema), schema, is_kind=issubclass(cls, TypedObject))
    return tuple(_violation(finding, cls) for finding in islice(found, most))


def unchecked_rules(cls: type[Struct]) -> tuple[UncheckedRule, ...]:
    """The rules that only the API server checks: CEL, immutability, rare formats, metadata of embedded objects."""
    return tuple(_unchecked(_schema(cls), ""))


def _schema(cls: type[Struct]) -> dict[str, Any]:
    return _compiled(cls)  # type: ignore[arg-type]  # mypy looks for the hash of an instance, not of the class


@cache
def _compiled(cls: type[Struct]) -> dict[str, Any]:
    return schema_of(cls, described=False)


def _violation(finding: Finding, cls: type[Struct]) -> Violation:
    found = MASK if _is_secret(cls, finding.steps) else finding.found
    return Violation(finding.path.removeprefix("."), finding.rule, found, finding.expected)


def _is_secret(target: Any, steps: tuple[str | int, ...]) -> bool:
    """Whether the path from a type down these steps goes through a sensitive field."""
    for step in steps:
        args = [argument for argument in get_args(target) if argument not in {NoneType, Ellipsis}]
        if is_struct(target):
            attrs.resolve_types(target)
            attribute = next((one for one in attrs.fields(target) if wire_name(one) == step), None)
            if attribute is None or is_sensitive(attribute):
                return attribute is not None
            target = _without_none(without_rules(attribute.type))
        elif args:
            target = _without_none(args[-1])
    return False


def _without_none(target: Any) -> Any:
    members = [member for member in get_args(target) if member is not NoneType]
    return members[0] if NoneType in get_args(target) else target


def _unchecked(schema: dict[str, Any], path: str) -> Iterator[UncheckedRule]:
    here = path.removeprefix(".")
    for rule in schema.get(RULES, ()):
        yield UncheckedRule(here, rule["rule"])
    if schema.get("type") == "string" and schema.get("format", "password") not in FORMATS:
        yield UncheckedRule(here, f"format {schema['format']}")
    if "x-kubernetes-embedded-resource" in schema:
        yield UncheckedRule(here, "metadata of an embedded object")
    for key, inner in schema.get("properties", {}).items():
        yield from _unchecked(inner, f"{path}.{key}")
    for step, keyword in (("[]", "items"), ("{}", "additionalProperties")):
        if keyword in schema:
            yield from _unchecked(schema[keyword], path + step)
