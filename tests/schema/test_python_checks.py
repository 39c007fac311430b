from typing import Annotated, Any, ClassVar

import pytest
from attrs import field, frozen

from gpuruntime.meta import (
    EMPTY,
    LABEL_KEY,
    LABEL_VALUE,
    OBJECT_NAME,
    Cel,
    Check,
    FrozenDict,
    Keys,
    Length,
    Pattern,
    QuantityRule,
    Range,
    Rule,
    Struct,
    decode,
    wire,
)
from gpuruntime.schema import CHECK, DefinitionError, schema_of, unchecked_rules, violations

CEL = "x-kubernetes-validations"


@frozen
class Item(Struct):
    name: Annotated[str, Length(maximum=5), OBJECT_NAME]
    secret: Annotated[str, Pattern(r"^[^\x00]*$")] | None = field(default=None, metadata=wire(sensitive=True))
    pin: Annotated[str, Check(str.isdigit, expected="digits")] | None = field(
        default=None, metadata=wire(sensitive=True)
    )


@frozen
class Rack(Struct):
    RULES: ClassVar[tuple[Rule, ...]] = (
        Cel(
            "self.low <= self.high",
            message="low must not exceed high",
            field_path=".low",
            check=lambda rack: rack.low <= rack.high,
            expected=lambda rack: f"at most {rack.high}",
        ),
        Cel("!has(self.size) || self.low == 0", message="a size needs no low"),
        Check(lambda rack: len(rack.items) != 1, expected="no lonely item"),
        Check(lambda rack: rack.labels.get("a") != "z", expected="another", field_path=".labels['a']"),
    )

    low: Annotated[int, Range(minimum=0)] = 0
    high: int = 10
    size: Annotated[str | int, QuantityRule(positive=True, minimum="1Mi", maximum="1Gi", example="8Mi")] | None = None
    kind: Annotated[str, Pattern("^(Oak|Elm)$")] = "Oak"
    items: tuple[Item, ...] = ()
    labels: Annotated[FrozenDict[str, Annotated[str, LABEL_VALUE]], Keys(LABEL_KEY)] = EMPTY


def found(value: dict[str, Any]) -> list[tuple[str, str]]:
    """Path and rule of each violation, which is the same for the JSON and for the decoded object."""
    of_json = violations(value, Rack)
    assert violations(decode(Rack, value), Rack) == of_json
    return [(violation.path, violation.rule) for violation in of_json]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, []),
        ({"size": None}, []),
        ({"low": 11}, [("low", CEL)]),
        ({"low": -1, "high": -2}, [("low", "minimum"), ("low", CEL)]),
        ({"items": [{"name": "a"}]}, [("", CHECK)]),
        ({"items": [{"name": "a"}, {"name": "B"}]}, [("items[1].name", CHECK)]),
        ({"labels": {"a b": "c", "d": "e f"}}, [("labels[d]", CHECK), ("labels", CHECK)]),
        ({"labels": {"a": "z"}}, [("labels[a]", CHECK)]),
        ({"size": "2Gi"}, [("size", CHECK)]),
        ({"size": 16}, [("size", CHECK)]),
        ({"size": "much"}, [("size", "pattern")]),
        ({"size": "0"}, [("size", "pattern")]),
        ({"size": "1024Mi"}, []),
    ],
)
def test_every_rule_in_python_is_evaluated(value: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert found(value) == expected


def test_rules_of_an_object_are_not_evaluated_if_a_value_inside_is_too_large() -> None:
    assert found({"low": 11, "items": [{"name": "too-long"}]}) == [("items[0].name", "maxLength")]


def test_rules_of_sound_parts_are_evaluated_beside_values_of_a_wrong_type() -> None:
    value = {"low": "eleven", "labels": {"a b": "c"}, "items": [{"name": 1}, {"name": "B"}]}

    assert [(violation.path, violation.rule) for violation in violations(value, Rack)] == [
        ("low", "type"),
        ("items[0].name", "type"),
        ("items[1].name", CHECK),
        ("labels", CHECK),
    ]


def test_a_violation_has_the_expectation_of_its_rule() -> None:
    value = {"low": 11, "size": "much", "kind": "Ash", "items": [{"name": "B"}, {"name": "c"}]}

    expected = {violation.path: (violation.expected, violation.found) for violation in violations(value, Rack)}

    assert expected == {
        "size": ("a quantity from 1Mi to 1Gi such as 8Mi", '"much"'),
        "kind": ("one of Oak, Elm", '"Ash"'),
        "items[0].name": (OBJECT_NAME.expected, '"B"'),
        "low": ("at most 10", "11"),
    }


def test_the_position_of_an_invalid_character_is_shown_instead_of_a_secret() -> None:
    secretive = {"items": [{"name": "a", "secret": "hid\0den"}, {"name": "b", "pin": "hidden"}]}

    shown = {violation.path: violation.found for violation in violations(secretive, Rack)}

    assert "position 3" in shown["items[0].secret"]
    assert "hid" not in str(shown)
    assert shown["items[1].pin"] == "***"


def test_the_number_of_violations_is_limited() -> None:
    value = {"items": [{"name": "B"}] * 50}

    assert len(violations(value, Rack, most=7)) == 7


def test_a_rule_without_a_check_is_left_to_the_server() -> None:
    assert [unchecked.rule for unchecked in unchecked_rules(Rack)] == ["!has(self.size) || self.low == 0"]


def test_rules_in_python_are_in_no_schema() -> None:
    schema = schema_of(Rack)

    assert [list(rule) for rule in schema[CEL]] == [["rule", "message", "fieldPath"], ["rule", "message"]]
    assert schema["properties"]["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert set(schema["properties"]["kind"]) == {"type", "pattern", "default"}


def test_keys_are_refused_on_a_struct() -> None:
    @frozen
    class Wrong(Struct):
        rack: Annotated[Rack, Keys(LABEL_KEY)] | None = None

    with pytest.raises(DefinitionError, match=r"Wrong\.rack: Keys is used on a Struct"):
        schema_of(Wrong)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: Cel("self == oldSelf", check=bool),
        lambda: Cel("true", field_path="low"),
        lambda: Check(bool, expected="x", field_path=".items[0]"),
        lambda: QuantityRule(minimum="much"),
        Keys,
    ],
)
def test_a_contradictory_rule_is_refused(declare: Any) -> None:
    with pytest.raises(ValueError, match=r"check|path|quantity"):
        declare()
