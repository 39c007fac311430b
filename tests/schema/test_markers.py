from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuruntime.meta import (
    Atomic,
    Format,
    Items,
    Length,
    MapOf,
    Pattern,
    PreserveUnknown,
    Properties,
    QuantityError,
    QuantityRule,
    Range,
    SetOf,
    parse_quantity,
)
from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.markers import apply_rules
from gpuruntime.schema.patterns import compiled

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
EITHER = {"x-kubernetes-int-or-string": True}
TEXTS = {"type": "array", "items": STRING}
PORTS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["port"],
        "properties": {"port": INTEGER, "protocol": {**STRING, "default": "TCP"}, "name": STRING, "hosts": TEXTS},
    },
}
OBJECT = {"type": "object", "properties": {}}
MAP = {"type": "object", "additionalProperties": STRING}


def added(schema: dict[str, Any], *rules: Any) -> dict[str, Any]:
    ruled = dict(schema)
    apply_rules(ruled, rules, "Widget.field")
    return {key: value for key, value in ruled.items() if key not in schema}


@pytest.mark.parametrize(
    ("schema", "rule", "keywords"),
    [
        (INTEGER, Range(minimum=1), {"minimum": 1}),
        ({"type": "number"}, Range(minimum=0.5, maximum=1), {"minimum": 0.5, "maximum": 1}),
        (STRING, Length(minimum=1, maximum=2), {"minLength": 1, "maxLength": 2}),
        (EITHER, Pattern("%$"), {"pattern": "%$"}),
        (TEXTS, Items(maximum=2), {"maxItems": 2}),
        (MAP, Properties(minimum=1), {"minProperties": 1}),
        (TEXTS, SetOf(), {"x-kubernetes-list-type": "set"}),
        (TEXTS, Atomic(), {"x-kubernetes-list-type": "atomic"}),
        (MAP, Atomic(), {"x-kubernetes-map-type": "atomic"}),
        (OBJECT, PreserveUnknown(), {"x-kubernetes-preserve-unknown-fields": True}),
        (
            PORTS,
            MapOf("port", "protocol"),
            {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
        ),
    ],
)
def test_a_rule_is_written_into_the_schema(schema: dict[str, Any], rule: Any, keywords: dict[str, Any]) -> None:
    assert added(schema, rule) == keywords


@pytest.mark.parametrize(
    ("schema", "rules", "problem"),
    [
        (STRING, [Range(minimum=1)], "a string, expected integer or number"),
        (INTEGER, [Length(minimum=1)], "an integer, expected int-or-string or string"),
        (INTEGER, [Range(minimum=0.5)], "whole numbers"),
        (STRING, [Items(minimum=1)], "a string, expected array"),
        (STRING, [Length(maximum=3), Length(maximum=4)], "maxLength to 4, .*3"),
        (STRING, [Pattern("(?=a)")], r"'\(\?=' at 0"),
        (PORTS, [SetOf()], "object values.* MapOf"),
        (PORTS, [MapOf("none")], "'none' .*hosts or name"),
        (PORTS, [MapOf("hosts")], "'hosts' .*array"),
        (PORTS, [MapOf("name")], "'name' .*absent"),
        (PORTS, [MapOf("port"), Atomic()], "x-kubernetes-list-type to 'atomic', .*'map'"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(schema: dict[str, Any], rules: list[Any], problem: str) -> None:
    with pytest.raises(DefinitionError, match=rf"Widget\.field: .*{problem}"):
        added(schema, *rules)


def test_a_format_refuses_lists_because_the_server_does_not() -> None:
    assert added(STRING, Format("date-time")) == {"format": "date-time", "minItems": 1, "maxItems": 0}


def test_a_positive_quantity_has_a_minimum_where_numbers_are_allowed() -> None:
    assert added(EITHER, QuantityRule(positive=True))["minimum"] == 1
    assert "minimum" not in added(STRING, QuantityRule(positive=True))
    assert "minimum" not in added(EITHER, QuantityRule())


TEXT = st.from_regex(r"[+-]?[0-9.]{0,4}[numkMGTPEKi]{0,2}([eE][+-]?[0-9]{0,5})?", fullmatch=True) | st.text(max_size=4)


@given(TEXT)
@example(".")
@example("0.000")
@example("1e1.5")
@example("0.0000000000001n")
@example("9" * 257)
def test_a_text_matches_exactly_when_it_can_be_parsed(text: str) -> None:
    any_amount, positive = added(STRING, QuantityRule()), added(STRING, QuantityRule(positive=True))

    def allowed(keywords: dict[str, Any]) -> bool:
        return len(text) <= keywords["maxLength"] and compiled(keywords["pattern"]).search(text) is not None

    try:
        nanos = parse_quantity(text).nanos
    except QuantityError:
        assert not allowed(any_amount)
        assert not allowed(positive)
    else:
        assert allowed(any_amount)
        assert allowed(positive) == (nanos > 0)
