"""Copies by shared fields, and types that have the fields of another."""

from typing import Annotated

import pytest
from attrs import fields_dict, frozen

from gpuruntime.api.projection import immutable_fields, optional_fields, patch_of, project, view_of
from gpuruntime.meta import EMPTY, FrozenDict, Length, Range, Struct, decode, encode
from gpuruntime.schema import schema_of, violations


@frozen
class Size(Struct):
    flavour: Annotated[str, Length(maximum=4)]
    """Name of the size."""
    count: Annotated[int, Range(minimum=0)] = 1
    """How many."""
    marks: FrozenDict[str, str] = EMPTY
    """Labels."""


@frozen
class Thing(Size):
    image: str | None = None


@frozen
class Heap(Size):
    image: int = 7
    """Not the image of a thing."""


@frozen(field_transformer=patch_of(Thing))
class ThingPatch(Struct):
    note: str | None = None


@frozen(kw_only=True, slots=False)
class Named(Struct):
    name: str


@frozen(field_transformer=view_of(Thing))
class ThingView(Named, Thing):
    phase: str | None = None


@frozen(field_transformer=optional_fields(Size))
class ThingBody(Thing):
    cold: bool = False


@frozen(field_transformer=immutable_fields(Size))
class FixedThing(Thing):
    """A thing whose size is fixed."""


def test_a_copy_has_the_fields_of_the_nearest_common_base_and_no_others() -> None:
    heap = Heap("s", 3, FrozenDict({"a": "b"}), 9, extra=FrozenDict({"new": 1}))

    assert project(heap, Thing, image="one") == Thing("s", 3, FrozenDict({"a": "b"}), "one")


def test_none_in_a_request_is_the_default_of_the_spec() -> None:
    body = decode(ThingBody, {"flavour": "s", "cold": True})

    assert (project(body, Thing), encode(body)) == (Thing("s", 1), {"flavour": "s", "cold": True})
    assert "default" not in schema_of(ThingBody)["properties"]["count"]


def test_types_that_share_no_field_are_not_copied() -> None:
    with pytest.raises(TypeError, match="Named and Thing"):
        project(Named(name="a"), Thing)


@pytest.mark.parametrize("change", [{}, {"count": None}, {"count": 1}, {"marks": {}, "image": "a", "note": "b"}])
def test_a_patch_is_exactly_what_was_sent(change: dict[str, object]) -> None:
    assert encode(decode(ThingPatch, change)) == change


def test_a_patch_has_the_rules_and_descriptions_of_the_fields_but_requires_none_and_has_no_defaults() -> None:
    schema = schema_of(ThingPatch)

    assert [one.path for one in violations({"flavour": "large", "count": -1}, ThingPatch)] == ["flavour", "count"]
    assert ("required" in schema, [key for key in schema["properties"] if "default" in schema["properties"][key]]) == (
        False,
        [],
    )
    assert schema["properties"]["count"]["description"] == "How many."


def test_a_view_shows_defaults_and_omits_what_is_empty() -> None:
    view = project(Thing("s"), ThingView, name="a")

    assert encode(view) == {"name": "a", "flavour": "s", "count": 1}
    assert encode(decode(ThingView, {"name": "deleted"})) == {"name": "deleted"}


def test_a_view_has_no_rules_because_an_object_may_be_older_than_a_rule() -> None:
    assert violations({"name": "a", "flavour": "large", "count": -1}, ThingView) == ()


def test_inherited_fields_become_immutable_without_being_named() -> None:
    schema = schema_of(FixedThing)
    rules = str([inner.get("x-kubernetes-validations") for inner in schema["properties"].values()])

    assert ("flavour is immutable" in rules, "count is immutable" in rules) == (True, True)
    assert [rule["fieldPath"] for rule in schema["x-kubernetes-validations"]] == [".marks"]
    assert fields_dict(FixedThing).keys() == fields_dict(Thing).keys()
