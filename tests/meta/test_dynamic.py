import pickle
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.meta.codec import DecodeError, encode, encode_bytes
from gpuruntime.meta.dynamic import DynamicObject, PartialObject
from gpuruntime.meta.frozen_mapping import FrozenDict, freeze
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import KubeObject, ObjectMeta

GADGET = ResourceKind("example.org", "v1", "Gadget", "gadgets", namespaced=True)
WIRE: dict[str, Any] = {
    "apiVersion": "example.org/v1",
    "kind": "Gadget",
    "metadata": {"name": "x", "namespace": "ns", "resourceVersion": "7"},
    "spec": {"parts": [{"a": None}, []]},
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def keys_of(*objects: KubeObject) -> set[ObjectKey]:
    return {obj.key for obj in objects}


def test_a_dynamic_object_keeps_the_whole_body_frozen() -> None:
    gadget = DynamicObject.decode(GADGET, WIRE)

    assert gadget.body["spec"] == freeze(WIRE["spec"])
    assert type(gadget.body["spec"]) is FrozenDict
    assert encode(gadget) == WIRE


def test_metadata_is_typed_and_computed_once() -> None:
    gadget = DynamicObject.decode(GADGET, WIRE)

    assert gadget.metadata == ObjectMeta(name="x", namespace="ns", resource_version="7")
    assert gadget.metadata is gadget.metadata


def test_dynamic_objects_are_values() -> None:
    gadget = DynamicObject.decode(GADGET, WIRE)

    twin = pickle.loads(pickle.dumps(gadget))  # noqa: S301  # our own bytes

    assert twin == gadget
    assert len({gadget, twin}) == 1


@given(st.dictionaries(st.text(max_size=3), json_values))
def test_any_body_round_trips(body: dict[str, Any]) -> None:
    gadget = DynamicObject.decode(GADGET, body)

    assert encode(gadget) == {"apiVersion": "example.org/v1", "kind": "Gadget", **body}


def test_a_partial_object_is_read_from_either_form() -> None:
    partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": WIRE["metadata"]}

    from_partial, from_whole = PartialObject.decode(GADGET, partial), PartialObject.decode(GADGET, WIRE)

    assert from_partial == from_whole == PartialObject(GADGET, DynamicObject.decode(GADGET, WIRE).metadata)
    assert keys_of(from_partial, DynamicObject.decode(GADGET, WIRE)) == {ObjectKey("ns", "x")}


def test_a_partial_object_is_written_as_its_kind() -> None:
    patch = PartialObject(GADGET, ObjectMeta(name="x", finalizers=("example.org/guard",)))

    assert encode(patch) == {
        "apiVersion": "example.org/v1",
        "kind": "Gadget",
        "metadata": {"name": "x", "finalizers": ["example.org/guard"]},
    }
    assert encode_bytes(patch).startswith(b'{"apiVersion":')


@pytest.mark.parametrize("form", [DynamicObject, PartialObject])
@pytest.mark.parametrize(
    ("value", "named"),
    [
        (None, "NoneType"),
        ([], "list"),
        ({"kind": "Widget"}, r"\('example.org/v1', 'Gadget'\), got \('example.org/v1', 'Widget'\)"),
        ({"apiVersion": "v1"}, "apiVersion"),
    ],
)
def test_an_object_of_another_kind_is_rejected(
    form: type[DynamicObject] | type[PartialObject], value: Any, named: str
) -> None:
    with pytest.raises(DecodeError, match=named):
        form.decode(GADGET, value)


def test_a_dynamic_object_rejects_values_that_are_not_json() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]

    with pytest.raises(DecodeError, match="datetime"):
        DynamicObject.decode(GADGET, {"when": datetime.now(UTC)})
    with pytest.raises(DecodeError, match="nested"):
        DynamicObject.decode(GADGET, {"deep": nested})


def test_malformed_metadata_is_reported_with_its_path() -> None:
    broken = {"metadata": {"labels": {"a": 1}}}

    gadget = DynamicObject.decode(GADGET, broken)

    with pytest.raises(DecodeError, match=r"1 @ \$\.metadata\.labels\.a"):
        _ = gadget.metadata
    with pytest.raises(DecodeError, match=r"@ \$\.metadata\.labels\.a"):
        PartialObject.decode(GADGET, broken)
