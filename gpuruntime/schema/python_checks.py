"""Rules in Python, evaluated on decoded values: `Check`, `Keys`, `Cel` with a check, bounds of a `QuantityRule`.

The rules of a type are collected once; parts of the type without rules are not visited.
"""

import re
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import cache
from typing import Any, Final, Protocol, get_args, get_origin

import attrs
from attrs import field, frozen

from gpuruntime.meta import Cel, Check, Keys, QuantityRule, Struct, TypedObject, known_fields
from gpuruntime.meta.codec import CONVERTER
from gpuruntime.meta.conversion.value_hooks import is_struct, without_rules
from gpuruntime.meta.decode_errors import Mismatch
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.structs import wire_name
from gpuruntime.schema.markers import RULES
from gpuruntime.schema.structural import peeled
from gpuruntime.schema.value_checks import Finding, Findings, Steps, shown

__all__ = ["CHECK", "Plan", "check_decoded", "check_json", "plan_of"]

CHECK: Final = "check"
"""The rule of a violation that only Python finds."""

_STEP: Final = re.compile(r"\.(\w+)|\['([^']+)'\]")


class _Checked(Protocol):
    """What `Check`, `Cel` with a check and `QuantityRule` have in common."""

    @property
    def check(self) -> Callable[[Any], bool] | None: ...

    @property
    def expected(self) -> str | Callable[[Any], str] | None: ...


@frozen
class Plan:
    """The rules in Python of a type: of a value itself, of the keys of a map, and of what is inside."""

    target: Any
    rules: tuple[_Checked, ...] = ()
    keys: tuple[Check, ...] = ()
    fields: tuple[tuple[str, str, "Plan"], ...] = ()
    """Attribute, step and plan of each field with rules inside."""
    members: "Plan | None" = None
    """The plan of the items of a list or map."""
    checks: tuple[Callable[[Any], bool], ...] = field(init=False)

    @checks.default
    def _checks(self) -> tuple[Callable[[Any], bool], ...]:
        return tuple(rule.check for rule in self.rules if rule.check is not None)

    def has_rules(self) -> bool:
        return bool(self.rules or self.keys or self.fields or self.members)


@cache
def plan_of(cls: type[Struct]) -> Plan:
    """The rules in Python of a type that has a schema."""
    attrs.resolve_types(cls)
    fields = []
    for attribute in attrs.fields(cls):
        plan = _plan(attribute.type) if attribute.name != "extra" else None
        if plan is not None and plan.has_rules():
            fields.append((attribute.name, f".{wire_name(attribute)}", plan))
    return Plan(cls, rules=_with_checks(getattr(cls, "RULES", ())), fields=tuple(fields))


def _plan(annotation: Any) -> Plan:
    target, rules, _nullable = peeled(annotation)
    checks = _with_checks(rules)
    keys = tuple(check for rule in rules if isinstance(rule, Keys) for check in rule.checks)
    if is_struct(target):
        inner = plan_of(target)
        return attrs.evolve(inner, rules=checks + inner.rules)
    members = None
    if get_origin(target) in {tuple, FrozenDict}:
        members = _plan(get_args(target)[0 if get_origin(target) is tuple else 1])
        members = members if members.has_rules() else None
    return Plan(without_rules(target), checks, keys, members=members)


def _with_checks(rules: Collection[Any]) -> tuple[_Checked, ...]:
    """The rules of these that have a form in Python."""
    return tuple(rule for rule in rules if _has_check(rule))


def _has_check(rule: Any) -> bool:
    match rule:
        case Cel(check=check):
            return check is not None
        case QuantityRule(minimum=minimum, maximum=maximum):
            return minimum is not None or maximum is not None
        case _:
            return isinstance(rule, Check)


def holds(plan: Plan, value: Any) -> bool:
    """Whether a decoded value violates none of the rules; faster than `check_decoded`, which builds paths."""
    for attribute, _step, inner in plan.fields:
        member = getattr(value, attribute)
        if member is not None and not holds(inner, member):
            return False
    if plan.members is not None:
        for item in value.values() if isinstance(value, Mapping) else value:
            if not holds(plan.members, item):
                return False
    if plan.keys and not all(check.check(key) for check in plan.keys for key in value):
        return False
    for is_valid in plan.checks:  # noqa: SIM110 -- a generator for `all` costs more than most checks
        if not is_valid(value):
            return False
    return True


def check_decoded(plan: Plan, value: Any, at: Steps, blocked: Collection[Steps], out: Findings) -> None:
    """Add the rules that a decoded value violates; the rules of a value inside come first.

    The rules of values at `blocked` paths are not evaluated.
    """
    if value is None or (not blocked and holds(plan, value)):
        return
    for attribute, step, inner in plan.fields:
        check_decoded(inner, getattr(value, attribute), (*at, step), blocked, out)
    if plan.members is not None:
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            check_decoded(plan.members, item, (*at, f"[{key}]"), blocked, out)
            if out.is_full():
                return
    if at in blocked:
        return
    for check in plan.keys:
        out += [_finding(check, key, at) for key in value if not check.check(key)]
    for rule, is_valid in zip(plan.rules, plan.checks, strict=True):
        if not is_valid(value):
            out.append(_finding(rule, value, at))


def check_json(plan: Plan, value: Any, at: Steps, blocked: Collection[Steps], out: Findings) -> None:
    """Add the rules that a JSON value violates, as far as the value can be decoded."""
    decoded = _decoded(plan, value) if at not in blocked else None
    if decoded is not None:
        check_decoded(plan, decoded, at, blocked, out)
        return
    if isinstance(value, dict):
        for _, step, inner in plan.fields:
            check_json(inner, value.get(step[1:]), (*at, step), blocked, out)
    if isinstance(value, dict | list) and plan.members is not None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            check_json(plan.members, item, (*at, f"[{key}]"), blocked, out)


def _decoded(plan: Plan, value: Any) -> Any:
    """The decoded value, or None if it does not match its type."""
    if is_struct(plan.target) and issubclass(plan.target, TypedObject) and isinstance(value, dict):
        value = {"metadata": {}, **value}
    try:
        return CONVERTER.get_structure_hook(plan.target)(value, plan.target)
    except (Mismatch, RecursionError):
        return None


def _finding(rule: Any, value: Any, at: Steps) -> Finding:
    steps, inner = _at_field(getattr(rule, "field_path", None) or "", value)
    expected = rule.expected(value) if callable(rule.expected) else rule.expected
    if expected is None:
        expected = f"a value that satisfies this rule: {rule.message or rule.rule}"
    return Finding((*at, *steps), RULES if isinstance(rule, Cel) else CHECK, expected, _shown(inner))


def _at_field(path: str, value: Any) -> tuple[Steps, Any]:
    """The steps of a path below a value, and the value there; None if it is absent."""
    steps: list[str] = []
    for name, key in _STEP.findall(path):
        steps.append(f".{name}" if name else f"[{key}]")
        if isinstance(value, Mapping):
            value = value.get(name or key)
        elif value is not None:
            (attribute,) = (one.name for one in attrs.fields(type(value)) if wire_name(one) == (name or key))
            value = getattr(value, attribute)
    return tuple(steps), value


def _shown(value: Any) -> str:
    """The names of the fields of an object, which are no secrets; otherwise as in other violations."""
    if value is None:
        return "nothing"
    if isinstance(value, Struct):
        names = " and ".join(known_fields(value))
        return f"an object with {names}" if names else "an empty object"
    return shown(value.value if isinstance(value, Enum) else value)
