"""Validation of values by the rules of their type: the verdict of the API server, and rules that it cannot evaluate."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType
from typing import Any, Final, Self, get_args

import attrs
from attrs import frozen

from gpuruntime.meta import Struct, TypedObject, encode
from gpuruntime.meta.conversion.value_hooks import is_struct, without_rules
from gpuruntime.meta.structs import is_sensitive, wire_name
from gpuruntime.schema.defaulting import completed
from gpuruntime.schema.formats import FORMATS
from gpuruntime.schema.markers import CHECKED, RULES
from gpuruntime.schema.python_checks import CHECK, Plan, check_decoded, check_json, plan_of
from gpuruntime.schema.structural import explained_schema
from gpuruntime.schema.value_checks import Finding, Findings, Steps, Validator, shown, validator

__all__ = ["UncheckedRule", "Violation", "unchecked_rules", "violations"]

# As in the server, CEL rules and checks are not evaluated on values that violate these: they may not be decodable, or
# too large for a check.
_BLOCKING: Final = frozenset({"type", "required", "enum", "maxLength", "maxItems", "maxProperties"})


@frozen
class Violation:
    """One rule that a value violates; its text reads "spec.gpu: expected at most 1024, got 4000".

    `path` is "" for the value itself, or a path like "spec.ports[0].name". `rule` is the keyword of the schema
    ("maximum", "required", ..., "x-kubernetes-validations" for CEL), "unknown" for a field that the server would prune,
    or "check" for a rule in Python that the server does not have. `found` never quotes the value of a sensitive field;
    it may be empty.
    """

    path: str
    expected: str
    found: str = ""
    rule: str = CHECK

    @classmethod
    def of(cls, path: str, expected: str, value: Any) -> Self:
        """A violation that quotes the value, which must not be secret."""
        return cls(path, expected, shown(value))

    @property
    def message(self) -> str:
        """What was expected and what was found, without the path."""
        return f"expected {self.expected}" + (f", got {self.found}" if self.found else "")

    def __str__(self) -> str:
        return f"{self.path or 'the value'}: {self.message}"


@frozen
class UncheckedRule:
    """A rule that only the API server can check."""

    path: str
    rule: str


def violations(
    value: Struct | Mapping[str, Any], cls: type[Struct], *, most: int | None = None
) -> tuple[Violation, ...]:
    """All rules of the type that a value violates, those of the schema first; empty if it is valid.

    `most` limits the number of violations: an untrusted value may have tens of thousands.

    The value is an object of the type, or JSON to be decoded to one. It is validated as by a server with strict field
    validation: nulls of optional fields count as absent, defaults are filled in first, unknown fields are violations.
    Then follow the rules in Python. They are not evaluated on values that violate the schema, and on objects that have
    an item or a field of a wrong type or size inside.

    Guarantees:
        The verdict is that of the API server, apart from `unchecked_rules`, and from violations whose rule is "check".

    Caveats:
        `metadata`, `apiVersion` and `kind` of the object itself are not checked. The server accepts a number as an
        integer if it is one within a billionth; here it must be exact, and rules in Python are not evaluated on objects
        with a number like 3.0 in a field for integers. In a field of the scale subresource the server refuses even 1.0.
    """
    compiled = _compiled(cls)  # type: ignore[arg-type]  # mypy looks for the hash of an instance, not of the class
    found = Findings(math.inf if most is None else most)
    if isinstance(value, Struct):
        wire = encode(value)
        compiled.validate(wire, (), found)
        if found:
            # Only an object that was decoded has nulls, and few are invalid: most need no completed copy.
            found.clear()
            compiled.validate(completed(wire, compiled.schema), (), found)
        check_decoded(compiled.plan, value, (), _blocked(found), found)
    else:
        complete = completed(value, compiled.schema)
        compiled.validate(complete, (), found)
        if not found.is_full():
            check_json(compiled.plan, complete, (), _blocked(found), found)
    return tuple(_violation(finding, cls) for finding in found[:most])


def unchecked_rules(cls: type[Struct]) -> tuple[UncheckedRule, ...]:
    """The rules that only the API server checks: CEL without a check, immutability, rare formats, metadata of embedded
    objects.
    """
    compiled = _compiled(cls)  # type: ignore[arg-type]  # as above
    return tuple(_unchecked(compiled.schema, ""))


@frozen
class _Compiled:
    schema: dict[str, Any]
    validate: Validator
    plan: Plan


@cache
def _compiled(cls: type[Struct]) -> _Compiled:
    schema = explained_schema(cls)
    return _Compiled(schema, validator(schema, is_kind=issubclass(cls, TypedObject)), _plan(cls))


def _plan(cls: Any) -> Plan:
    # mypy looks for the hash of an instance, not of the class.
    return plan_of(cls)


def _blocked(found: Iterable[Finding]) -> frozenset[Steps]:
    """The paths of values whose rules in Python are not evaluated."""
    return frozenset(
        finding.steps[:length]
        for finding in found
        for length in (range(len(finding.steps) + 1) if finding.rule in _BLOCKING else (len(finding.steps),))
    )


def _violation(finding: Finding, cls: type[Struct]) -> Violation:
    found = finding.masked if _is_secret(cls, finding.steps) else finding.found
    return Violation("".join(finding.steps).removeprefix("."), finding.expected, found, finding.rule)


def _is_secret(target: Any, steps: Steps) -> bool:
    """Whether the path from a type down these steps goes through a sensitive field."""
    for step in steps:
        args = [argument for argument in get_args(target) if argument not in {NoneType, Ellipsis}]
        if is_struct(target):
            attrs.resolve_types(target)
            attribute = next((one for one in attrs.fields(target) if wire_name(one) == step[1:]), None)
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
    for rule in (rule for rule in schema.get(RULES, ()) if CHECKED not in rule):
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
