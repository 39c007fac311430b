from datetime import date
from typing import Any
from weakref import ref

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.sharing import decode_sharing_spec
from gpuruntime.meta.structs import Struct


@frozen
class WidgetSpec(Struct):
    text: str = "plain"
    anything: Any = None


@frozen
class Widget(TypedObject):
    KIND = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)

    spec: WidgetSpec = field(default=WidgetSpec())


@frozen
class Gadget(TypedObject):
    KIND = ResourceKind("example.org", "v1", "Gadget", "gadgets", namespaced=True)

    spec: WidgetSpec


def raw(spec: Any, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "b", "resourceVersion": version}, "spec": spec}


def type_of(kind: str) -> dict[str, str]:
    return {"apiVersion": "example.org/v1", "kind": kind}


def test_two_versions_of_an_object_share_one_spec() -> None:
    before = decode_sharing_spec(Widget, raw({"text": "long", "anything": [1, {"a": None}]}))

    after = decode_sharing_spec(Widget, raw({"text": "long", "anything": [1, {"a": None}]}, "2"))

    assert after.spec is before.spec
    assert after.metadata.resource_version == "2"


def test_objects_of_two_kinds_share_nothing() -> None:
    widget = decode_sharing_spec(Widget, raw({"text": "long"}))

    gadget = decode_sharing_spec(Gadget, raw({"text": "long"}))

    assert gadget.spec == widget.spec
    assert gadget.spec is not widget.spec


# Values that are equal in Python but not in JSON.
values = st.sampled_from([True, 1, 1.0, "1", [True], [1], {"a": False}, {"a": 0}, None, 0.0, -0.0, "plain"])


@given(st.lists(st.dictionaries(st.sampled_from(["text", "anything", "unknown"]), values, max_size=3), max_size=8))
def test_sharing_does_not_depend_on_what_was_decoded_before(specs: list[dict[str, Any]]) -> None:
    held = []

    for spec in specs:
        try:
            alone: Widget | str = decode(Widget, raw(spec))
        except DecodeError as error:
            alone = str(error)
        try:
            beside: Widget | str = decode_sharing_spec(Widget, raw(spec))
        except DecodeError as error:
            beside = str(error)
        held.append(beside)

        assert repr(beside) == repr(alone)
        assert isinstance(beside, str) or encode(beside) == {**type_of("Widget"), **raw(spec)}


def test_a_value_that_is_not_json_is_rejected_even_if_its_text_is_cached() -> None:
    known = decode_sharing_spec(Widget, raw({"text": "2026-01-02"}))

    with pytest.raises(DecodeError, match=r"spec\.text"):
        decode_sharing_spec(Widget, raw({"text": date(2026, 1, 2)}))

    assert known.spec.text == "2026-01-02"


def test_an_unreferenced_spec_is_evicted() -> None:
    widget: Widget | None = decode_sharing_spec(Widget, raw({"text": "short-lived"}))
    spec = ref(widget.spec) if widget is not None else None

    widget = None

    assert spec is not None
    assert spec() is None
