import copy
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gpuruntime.schema.defaulting import completed
from gpuruntime.schema.schema_changes import schema_breakages
from gpuruntime.schema.structural import schema_of
from gpuruntime.schema.value_checks import Findings, validator
from tests.schema.generated_objects import valid
from tests.schema.installed import without_cel
from tests.schema.rich_kind import WidgetSpec

INTEGER = {"type": "integer"}
STRING = {"type": "string"}
KEEPING = {"x-kubernetes-preserve-unknown-fields": True}


def a_list(items: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": items} | {f"x-kubernetes-{key}": value for key, value in keywords.items()}


def an_object(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required or []}


BREAKING = [
    (STRING, INTEGER, "spec changes from string to integer"),
    ({"type": "number"}, INTEGER, "spec changes from number to integer"),
    (an_object(a=STRING), an_object(), "spec.a was removed"),
    (an_object(a=STRING), an_object(b=STRING), "(renamed to b?"),
    (an_object(), an_object(["a"], a=STRING), "spec.a is required"),
    (an_object(a=STRING), an_object(["a"], a=STRING), "spec.a is required"),
    ({**INTEGER, "minimum": 1}, {**INTEGER, "minimum": 2}, "spec has minimum 2, was 1"),
    (INTEGER, {**INTEGER, "maximum": 2}, "spec has maximum 2, was none"),
    ({**STRING, "maxLength": 9}, {**STRING, "maxLength": 8}, "spec has maxLength 8, was 9"),
    ({**STRING, "pattern": "a"}, {**STRING, "pattern": "b"}, "spec has pattern 'b', was 'a'"),
    (STRING, {**STRING, "format": "date", "minItems": 1, "maxItems": 0}, "spec has format 'date', was none"),
    (STRING, {**STRING, "enum": ["a"]}, "spec has enum ['a'], was none"),
    ({**STRING, "enum": ["a", "b"]}, {**STRING, "enum": ["a"]}, "spec no longer allows 'b'"),
    ({**STRING, "nullable": True}, STRING, "spec can no longer be null"),
    (a_list(STRING), {**a_list(STRING), "maxItems": 3}, "spec has maxItems 3, was none"),
    (a_list(STRING), a_list(INTEGER), "spec[] changes from string to integer"),
    (a_list(STRING), a_list(STRING, **{"list-type": "set"}), "x-kubernetes-list-type set, was atomic"),
    (
        a_list(STRING, **{"list-type": "map", "list-map-keys": ["a", "b"]}),
        a_list(STRING, **{"list-type": "map", "list-map-keys": ["a"]}),
        "spec has the keys ['a'], was ['a', 'b']",
    ),
    ({**an_object(), **KEEPING}, an_object(), "spec no longer keeps unknown fields"),
    ({"type": "object", "additionalProperties": STRING}, an_object(), "spec is no longer a map"),
    (
        {"type": "object", "additionalProperties": STRING},
        {"type": "object", "additionalProperties": {**STRING, "minLength": 1}},
        "spec{} has minLength 1, was none",
    ),
    (an_object(), {**an_object(), "x-kubernetes-embedded-resource": True}, "spec must be a whole object now"),
]
WARNINGS = [
    (INTEGER, {"type": "number"}, "spec changes from integer to number"),
    (STRING, {"x-kubernetes-int-or-string": True}, "spec changes from string to int-or-string"),
    (STRING, {**KEEPING, "nullable": True}, "spec changes from string to untyped"),
    ({**STRING, "enum": ["a"]}, {**STRING, "enum": ["a", "b"]}, "spec allows more choices"),
    ({**STRING, "enum": ["a"]}, STRING, "spec allows more choices"),
    (
        {**INTEGER, "default": 1},
        {**INTEGER, "default": 2},
        "spec has default 2, was 1",
    ),
    (an_object(a=STRING), {**an_object(), **KEEPING}, "spec.a was removed"),
    ({**an_object(), **KEEPING}, {**an_object(a=STRING), **KEEPING}, "spec.a has a schema now"),
    (INTEGER, {**INTEGER, "multipleOf": 2}, "spec has a changed multipleOf"),
    (STRING, {**STRING, "x-kubernetes-validations": [{"rule": "self != ''"}]}, "spec has a new rule"),
]


@pytest.mark.parametrize(
    ("old", "new", "severity", "problem"),
    [*((*case[:2], "breaking", case[2]) for case in BREAKING), *((*case[:2], "warning", case[2]) for case in WARNINGS)],
)
def test_a_breaking_change_is_reported(old: dict[str, Any], new: dict[str, Any], severity: str, problem: str) -> None:
    (change,) = schema_breakages(old, new, "spec")

    assert change.severity == severity
    assert problem in str(change)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({**INTEGER, "minimum": 2, "maximum": 3}, {**INTEGER, "minimum": 1}),
        ({**STRING, "pattern": "a", "format": "date", "minItems": 1, "maxItems": 0}, STRING),
        (an_object(["a"], a=STRING), an_object(a=STRING, b={**STRING, "default": "x", "description": "new"})),
        ({**INTEGER, "format": "int32"}, {**INTEGER, "format": "int64"}),
        ({**STRING, "x-kubernetes-validations": [{"rule": "self != ''"}]}, {**STRING, "description": "any"}),
    ],
)
def test_a_change_that_allows_more_is_not_reported(old: dict[str, Any], new: dict[str, Any]) -> None:
    changes = [change for change in schema_breakages(old, new, "spec") if change.severity == "breaking"]

    assert changes == []


SPEC = without_cel(schema_of(WidgetSpec))
CHANGES: dict[str, Any] = {
    "type": ["string", "integer", "number", "object", "array"],
    "minimum": [0, 1, 5],
    "maximum": [0, 8, 70000],
    "minLength": [0, 1, 3],
    "maxLength": [5, 10, 300],
    "maxItems": [0, 2, 9],
    "enum": [["Fast"], ["Fast", "Safe", "Other"], [1, 2], ["TCP", "UDP"]],
    "default": [1, "Safe"],
    "pattern": ["^[a-z]*$"],
    "required": [[], ["name"], ["size", "name", "color"]],
    "x-kubernetes-list-type": ["set", "atomic"],
    "x-kubernetes-preserve-unknown-fields": [True],
    "properties": [{}, {"known": {"type": "integer"}}],
}


def nodes(schema: Any) -> Any:
    yield schema
    for inner in [*schema.get("properties", {}).values(), *(schema[key] for key in ("items",) if key in schema)]:
        yield from nodes(inner)
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"])


@st.composite
def changed_schemas(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = copy.deepcopy(SPEC)
    node = draw(st.sampled_from(list(nodes(schema))))
    keyword = draw(st.sampled_from(sorted(CHANGES)))
    if draw(st.booleans()):
        node.pop(keyword, None)
    else:
        node[keyword] = draw(st.sampled_from(CHANGES[keyword]))
    assume("type" in node or "x-kubernetes-preserve-unknown-fields" in node or "x-kubernetes-int-or-string" in node)
    assume(node.get("type") != "array" or "items" in node)
    assume(all(name in node.get("properties", {}) for name in node.get("required", ())))
    return schema


@given(new=changed_schemas(), value=valid(SPEC, embedded=False))
def test_without_a_report_every_old_object_is_accepted_and_kept(new: dict[str, Any], value: Any) -> None:
    assume(not list(schema_breakages(SPEC, new, "spec")))

    stored = completed(value, SPEC)

    assert completed(stored, new) == stored
    found = Findings()
    validator(new)(stored, (), found)
    assert found == []
