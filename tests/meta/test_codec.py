import json
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.codec import DecodeError, decode, decode_bytes, encode, encode_bytes, parse_json
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct


@frozen
class WidgetSpec(Struct):
    replicas: int | None = None
    tags: tuple[str, ...] = ()


@frozen
class Widget(TypedObject):
    KIND = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)

    spec: WidgetSpec


WIRE: dict[str, Any] = {
    "apiVersion": "example.org/v1",
    "kind": "Widget",
    "metadata": {"name": "x", "namespace": "ns", "creationTimestamp": None, "newField": {"a": [1]}},
    "spec": {"replicas": 3, "tags": [], "future": None},
    "status": {"phase": "Ready"},
}


def test_an_object_round_trips_as_value_and_as_bytes() -> None:
    text = json.dumps(WIRE).encode()

    widget = decode_bytes(Widget, text)

    assert widget == decode(Widget, WIRE)
    assert encode(widget) == WIRE
    assert json.loads(encode_bytes(widget)) == WIRE


def test_an_object_created_in_python_is_encoded_without_defaults() -> None:
    widget = Widget(ObjectMeta(name="x", labels=FrozenDict(a="b")), WidgetSpec(tags=("t",)))

    assert encode(widget) == {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {"tags": ["t"]},
    }


def test_an_encoded_object_may_be_edited() -> None:
    widget = decode(Widget, WIRE)

    draft = encode(widget)
    draft["metadata"]["newField"]["a"].append(2)
    draft["spec"]["tags"].append("t")

    assert encode(widget) == WIRE


def test_every_failure_has_its_path_and_the_object_is_named() -> None:
    broken = {**WIRE, "spec": {"replicas": "abc", "tags": ["a", 1]}}

    with pytest.raises(DecodeError) as caught:
        decode(Widget, broken)

    assert caught.value.subject == "Widget ns/x"
    first, second = caught.value.failures
    assert first.endswith("'abc' @ $.spec.replicas")
    assert second.endswith("1 @ $.spec.tags[1]")
    assert all(part in str(caught.value) for part in ("Widget ns/x", first, second))


def test_a_value_inside_a_document_is_located_from_its_root() -> None:
    with pytest.raises(DecodeError) as caught:
        decode(WidgetSpec, {"replicas": True}, at=("items", 3, "spec"))

    assert caught.value.failures == ("expected an integer, got true @ $.items[3].spec.replicas",)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b'{"a": "\xc3\x28"}', b"<html></html>", b"NaN", b'{"a":1}{'])
def test_bytes_that_are_not_json_are_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError, match=f"Widget.* {len(data)} invalid bytes"):
        decode_bytes(Widget, data)


@given(st.binary())
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        decode_bytes(Widget, data)
    except DecodeError:
        return


@pytest.mark.parametrize("value", [None, 1, "text", [], True])
def test_a_value_that_is_not_an_object_is_rejected(value: Any) -> None:
    with pytest.raises(DecodeError, match="Widget"):
        decode(Widget, value)


def test_a_value_that_is_nested_too_deeply_is_a_decode_error() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]

    with pytest.raises(DecodeError, match="nested"):
        decode(Widget, {**WIRE, "status": nested})


def test_deep_but_legal_json_never_escapes_as_another_error() -> None:
    text = b'{"metadata": {}, "spec": {}, "x": ' + b"[" * 1000 + b"]" * 1000 + b"}"

    with pytest.raises(DecodeError):
        decode_bytes(Widget, text)


def test_a_parse_error_names_its_subject() -> None:
    assert parse_json(b'{"a": [1]}', "a watch event") == {"a": [1]}
    with pytest.raises(DecodeError, match="a watch event"):
        parse_json(b"}", "a watch event")
