from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar, Literal, Union

import pytest
from attrs import field, frozen

from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.meta import (
    EMPTY,
    Atomic,
    Cel,
    Condition,
    Default,
    Embedded,
    FrozenDict,
    Immutable,
    MapOf,
    Range,
    Required,
    ResourceKind,
    Struct,
    TypedObject,
    decode,
    wire,
)
from gpuruntime.schema.failures import DefinitionError
from gpuruntime.schema.structural import TYPE, schema_of


class Mode(Enum):
    FAST = "Fast"
    SAFE = "Safe"


class Level(IntEnum):
    LOW_PRIORITY = 1
    HIGH = 2


@frozen
class Inner(Struct):
    """An inner part."""

    size: int = 3


@frozen
class Plain(Struct):
    name: str | None = None


def properties_of(cls: type[Struct]) -> dict[str, Any]:
    properties: dict[str, Any] = schema_of(cls)["properties"]
    return properties


def test_every_type_has_its_schema() -> None:
    @frozen
    class Types(Struct):
        text: str
        whole: int
        real: float
        flag: bool
        either: str | int
        numeric: int | float
        mode: Mode
        level: Level
        choice: Literal["a", "b"]
        free: Any
        texts: tuple[str, ...]
        counts: FrozenDict[str, int]
        options: FrozenDict[str, Any]
        inner: Inner
        host_ip: str = field(metadata=wire("hostIP"))

    schema = schema_of(Types)

    number = {"type": "number", "format": "double"}
    whole = {"type": "integer", "format": "int64"}
    assert schema["type"] == "object"
    assert schema["required"] == list(schema["properties"])
    assert schema["properties"] == {
        "text": {"type": "string"},
        "whole": whole,
        "real": number,
        "flag": {"type": "boolean"},
        "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "numeric": number,
        "mode": {"type": "string", "enum": ["Fast", "Safe"]},
        "level": {**whole, "enum": [1, 2]},
        "choice": {"type": "string", "enum": ["a", "b"]},
        "free": {"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
        "texts": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": whole},
        "options": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "inner": {"description": "An inner part.", "type": "object", "properties": {"size": {**whole, "default": 3}}},
        "hostIP": {"type": "string"},
    }


def test_a_python_default_is_the_server_default_unless_absence_means_the_same() -> None:
    @frozen
    class Defaults(Struct):
        given: Annotated[int, Default(8)]
        zero: int = 0
        empty: str = ""
        mode: Mode = Mode.SAFE
        nothing: str | None = None
        texts: tuple[str, ...] = ()
        words: tuple[str, ...] = ("a",)
        labels: FrozenDict[str, str] = EMPTY
        inner: Inner = field(default=Inner())
        large: Inner = field(factory=lambda: Inner(size=9))
        plain: Plain = field(default=Plain())
        chosen: Annotated[int, Default(7)] | None = None

    schema = schema_of(Defaults)

    assert {name: inner["default"] for name, inner in schema["properties"].items() if "default" in inner} == {
        "zero": 0,
        "empty": "",
        "mode": "Safe",
        "words": ["a"],
        "inner": {},
        "large": {"size": 9},
        "chosen": 7,
        "given": 8,
    }
    assert "required" not in schema


def test_a_kind_has_the_fields_of_every_object_and_its_status_no_default() -> None:
    @frozen
    class Thing(TypedObject):
        KIND = ResourceKind("example.org", "v1", "Thing", "things", namespaced=True)
        spec: Inner
        status: Inner = field(default=Inner())

    schema = schema_of(Thing)

    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert "default" not in schema["properties"]["status"]
    assert schema["required"] == ["spec"]


def test_metadata_of_a_template_has_a_schema_and_no_default() -> None:
    @frozen
    class Templated(Struct):
        template: PodTemplateSpec = field(default=PodTemplateSpec())

    template = properties_of(Templated)["template"]

    metadata = template["properties"]["metadata"]["properties"]
    assert metadata["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert not any("default" in inner for inner in metadata.values())
    assert "default" not in template


def test_objects_inside_objects_are_embedded_resources() -> None:
    @frozen
    class Holder(Struct):
        typed: ConfigMap | None = None
        free: Annotated[FrozenDict[str, Any], Embedded()] | None = None
        anything: Annotated[Any, Embedded()] = None

    properties = properties_of(Holder)

    assert all(properties[name]["x-kubernetes-embedded-resource"] for name in ("typed", "free", "anything"))
    assert properties["typed"]["required"] == ["apiVersion", "kind"]
    assert properties["anything"]["type"] == "object"


def test_rules_of_a_class_and_of_its_field_are_combined() -> None:
    @frozen
    class Ruled(Struct):
        RULES: ClassVar[tuple[Cel, ...]] = (Cel("self.a > 0", message="a is positive"),)
        a: int

    @frozen
    class Holder(Struct):
        ruled: Annotated[Ruled, Cel("self.a < 9", reason="FieldValueForbidden"), Immutable()]

    rules = properties_of(Holder)["ruled"]["x-kubernetes-validations"]

    assert rules == [
        {"rule": "self.a > 0", "message": "a is positive"},
        {"rule": "self.a < 9", "reason": "FieldValueForbidden"},
        {"rule": "self == oldSelf", "message": "ruled is immutable"},
    ]


@frozen
class Tree(Struct):
    children: "tuple[Tree, ...]" = ()


@frozen
class Fixed(Struct):
    name: Annotated[str, Immutable()]


@pytest.mark.parametrize(
    ("annotation", "default", "problem"),
    [
        (Tree, Tree(), r"part\.children\[\]: Tree is recursive"),
        (int | None, 3, "default 3"),
        (Annotated[int, Default(4)], 3, r"Default\(4\) .*default 3"),
        (tuple[int | None, ...], (), r"part\[\]: .*null"),
        (tuple[Annotated[int, Default(1)], ...], (), "Immutable and Default"),
        (Union[bool, str], "x", "schema cannot express"),  # noqa: UP007 -- the old spelling
        (Literal["a", 1], "a", "schema cannot express"),
        (tuple[Fixed, ...], (), r"part\[\]\.name: Immutable"),
        (Annotated[Fixed | None, Atomic()], None, r"part\.name: Immutable"),
        (Annotated[Any, Immutable()], None, "Immutable .*untyped"),
        (Annotated[tuple[Any, ...], Cel("true")], (), "Cel .*untyped"),
        (tuple[str, str], ("a", "b"), r"tuple\[X, \.\.\.\] with Items\(minimum"),
        (tuple[()], (), "fixed length"),
        (FrozenDict[int, str], EMPTY, r"FrozenDict\[str, X\]"),
        (list[str], (), r"tuple\[X, \.\.\.\]"),
        (Annotated[tuple[str, ...], MapOf("name")], (), "MapOf .*string values.* SetOf"),
        (Annotated[str, Default("a"), Required()], "", "Required .*Default"),
    ],
)
def test_a_type_without_a_schema_is_refused_by_field(annotation: Any, default: Any, problem: str) -> None:
    @frozen
    class Holder(Struct):
        part: annotation = default

    with pytest.raises(DefinitionError, match=problem) as caught:
        schema_of(Holder)

    assert "Holder.part" in str(caught.value)


def test_an_optional_field_without_default_is_refused() -> None:
    @frozen
    class Holder(Struct):
        part: int | None

    with pytest.raises(DefinitionError, match=r"Holder.part: "):
        schema_of(Holder)


def test_items_with_keys_may_have_immutable_fields() -> None:
    @frozen
    class Holder(Struct):
        parts: Annotated[tuple[Fixed, ...], MapOf("name")] = ()

    items = properties_of(Holder)["parts"]["items"]

    assert items["properties"]["name"]["x-kubernetes-validations"][0]["rule"] == "self == oldSelf"


def test_foreign_annotations_are_ignored() -> None:
    @frozen
    class Noted(Struct):
        size: Annotated[int, "a note", Range(minimum=1)]

    assert properties_of(Noted)["size"] == {"type": "integer", "format": "int64", "minimum": 1}


def test_a_class_without_its_decorator_is_refused() -> None:
    class Forgotten(Struct):
        size: int = 3

    with pytest.raises(DefinitionError, match=r"Forgotten\.size: .*@frozen"):
        schema_of(Forgotten)


def test_a_nested_class_without_its_decorator_is_refused() -> None:
    class Part(Struct):
        size: int = 3

    @frozen
    class Whole(Part):
        name: str = ""

    with pytest.raises(DefinitionError, match=r"Part\.size: .*@frozen"):
        schema_of(Whole)


@pytest.mark.parametrize("part", ["spec", "status"])
@pytest.mark.parametrize(("annotation", "found"), [(str, "string"), (tuple[str, ...], "array")])
def test_spec_and_status_are_objects(part: str, annotation: Any, found: str) -> None:
    namespace = {"KIND": ResourceKind("example.org", "v1", "Thing", "things", namespaced=True)}
    thing = frozen(type("Thing", (TypedObject,), namespace | {"__annotations__": {part: annotation}}))

    with pytest.raises(DefinitionError, match=rf"Thing\.{part}: .*{found}"):
        schema_of(thing)


def test_a_field_may_be_required_of_writers_and_not_of_readers() -> None:
    @frozen
    class Noted(Struct):
        why: Annotated[str, Required(), Immutable()] = ""
        note: Annotated[str | None, Required()] = None

    schema = schema_of(Noted)

    assert schema["required"] == ["why", "note"]
    assert not any("default" in inner for inner in schema["properties"].values())
    assert schema["properties"]["why"]["x-kubernetes-validations"][0]["rule"] == "self == oldSelf"
    assert decode(Noted, {}) == Noted()


def test_conditions_have_the_usual_schema_and_are_a_map_by_type() -> None:
    @frozen
    class Status(Struct):
        conditions: tuple[Condition, ...] = ()
        old: Annotated[tuple[Condition, ...], Atomic()] = ()

    properties = properties_of(Status)

    conditions = properties["conditions"]
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    assert properties["old"]["x-kubernetes-list-type"] == "atomic"
    items = conditions["items"]
    rules = {
        name: {key: rule for key, rule in inner.items() if key != "description"}
        for name, inner in items["properties"].items()
    }
    assert items["required"] == ["type", "status", "reason", "message", "lastTransitionTime"]
    # What controller-gen makes of metav1.Condition, but for the last two of lastTransitionTime: see `Format`.
    domain = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    assert rules == {
        "type": {
            "type": "string",
            "maxLength": 316,
            "pattern": rf"^({domain}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "reason": {
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        "message": {"type": "string", "maxLength": 32768},
        "lastTransitionTime": {"type": "string", "format": "date-time", "minItems": 1, "maxItems": 0},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
    }


def test_a_typed_schema_has_the_type_of_each_part() -> None:
    @frozen
    class Outer(Struct):
        one: Inner = Inner()
        many: tuple[Inner, ...] = ()

    schema = schema_of(Outer, typed=True)

    assert (schema["properties"]["one"][TYPE], schema["properties"]["many"]["items"][TYPE]) == (Inner, Inner)
    assert TYPE not in schema
    assert TYPE not in str(schema_of(Outer))
