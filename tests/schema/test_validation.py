from typing import Annotated, Any

from attrs import field, frozen
from hypothesis import assume, given

from gpuruntime.meta import EMPTY, Format, FrozenDict, Length, ObjectMeta, Struct, decode, encode, wire
from gpuruntime.schema.structural import schema_of
from gpuruntime.schema.validation import UncheckedRule, Violation, unchecked_rules, violations
from tests.schema.generated_objects import valid
from tests.schema.rich_kind import Port, Widget, WidgetSpec


@frozen
class Secretive(Struct):
    password: Annotated[str, Length(maximum=3)] | None = field(default=None, metadata=wire(sensitive=True))
    parts: FrozenDict[str, Any] = field(default=EMPTY, metadata=wire(sensitive=True))
    inner: "tuple[Part, ...]" = ()
    named: "FrozenDict[str, Part]" = EMPTY


@frozen
class Part(Struct):
    token: Annotated[str, Length(maximum=3)] | None = field(default=None, metadata=wire(sensitive=True))
    name: Annotated[str, Length(maximum=3)] | None = None


@given(valid(schema_of(WidgetSpec)))
def test_a_valid_value_has_no_violations(spec: dict[str, Any]) -> None:
    decoded = decode(WidgetSpec, spec)
    assume(decoded.low <= decoded.high and decoded.name not in decoded.tags)

    assert violations({"spec": spec}, Widget) == ()


def test_all_violations_are_returned_at_once_with_their_paths() -> None:
    wire_form = {
        "metadata": {"name": "x"},
        "spec": {
            "size": 9,
            "mode": "Slow",
            "ratio": "much",
            "ports": [{"number": 80, "name": "web"}, {"number": 80, "name": "Web", "protocol": "TCP"}],
            "limits": {"a.b/c": -1},
            "window": {"grace": 1.5, "opened": True},
            "matrix": [[1], [None]],
        },
    }

    found = violations(wire_form, Widget)

    assert [str(violation) for violation in found] == [
        "spec.name: expected a string, got nothing",
        "spec.size: expected at most 8, got 9",
        'spec.ratio: expected a number, got "much"',
        'spec.mode: expected one of "Fast", "Safe", got "Slow"',
        'spec.ports[1].name: expected a match of ^[a-z]([-a-z0-9]*[a-z0-9])?$, got "Web"',
        "spec.ports[1]: expected items that differ in number and protocol, got the same as in [0]",
        "spec.matrix[1][0]: expected an integer, got null",
        "spec.limits[a.b/c]: expected at least 0, got -1",
        "spec.window.grace: expected an integer, got 1.5",
        "spec.window.opened: expected one of open, grace, owner, got an unknown field",
    ]


def test_an_object_is_validated_like_its_json() -> None:
    spec = WidgetSpec(size=0, name="x", ports=(Port(1, "a"), Port(1, "b")))
    widget = Widget(metadata=ObjectMeta(name="x"), spec=spec)

    found = violations(widget, Widget)

    assert found == violations(encode(widget), Widget)
    assert [(violation.path, violation.rule) for violation in found] == [
        ("spec.size", "minimum"),
        ("spec.ports[1]", "x-kubernetes-list-type"),
    ]


def test_a_value_that_is_not_an_object_is_a_violation() -> None:
    faults = violations([], Widget)  # type: ignore[arg-type]  # what a stranger may send

    assert faults == (Violation("", "an object", "a list of 0", "type"),)


def test_secrets_are_not_quoted() -> None:
    part = {"token": "secret", "name": "public"}
    value = {"password": "secret", "parts": "secret", "inner": [part], "named": {"a": part}}

    found = {violation.path: violation.found for violation in violations(value, Secretive)}

    assert found == {
        "password": "***",
        "parts": "***",
        "inner[0].token": "***",
        "inner[0].name": '"public"',
        "named[a].token": "***",
        "named[a].name": '"public"',
    }


def test_long_values_are_truncated_and_large_numbers_not_written_out() -> None:
    found = violations({"spec": {"size": 10**30, "name": "x" * 500}}, Widget)

    assert [violation.found for violation in found] == ["an integer beyond 64 bits", '"' + "x" * 79 + "..."]


def test_large_numbers_in_a_set_are_reported_like_others() -> None:
    found = violations({"spec": {"size": 1, "name": "x", "tags": [10**30, 10**30]}}, Widget)

    reported = [(violation.path, violation.rule) for violation in found]
    assert reported == [("spec.tags[0]", "type"), ("spec.tags[1]", "type"), ("spec.tags[1]", "x-kubernetes-list-type")]


def test_the_rules_that_only_the_server_checks_are_listed() -> None:
    @frozen
    class Addressed(Struct):
        address: Annotated[str, Format("ipv6")] | None = None

    listed = unchecked_rules(Widget)

    assert "self.low <= self.high" not in {unchecked.rule for unchecked in listed}
    assert UncheckedRule("spec.size", "self == oldSelf") in listed
    assert UncheckedRule("spec.raw", "metadata of an embedded object") in listed
    assert [rule.path for rule in listed if "oldSelf.owner" in rule.rule] == ["spec.windows{}", "spec.window"]
    assert unchecked_rules(Addressed) == (UncheckedRule("address", "format ipv6"),)
