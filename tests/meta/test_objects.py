from typing import Any

import pytest
from attrs import evolve, frozen

from gpuruntime.meta.codec import DecodeError, decode, encode
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import KubeObject, ObjectMeta, OwnerReference, TypedObject


@frozen
class Widget(TypedObject):
    KIND = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)

    size: int = 0


@frozen
class Box(TypedObject):
    KIND = ResourceKind("", "v1", "Box", "boxes", namespaced=False)


METADATA: dict[str, Any] = {
    "name": "x",
    "generateName": "x-",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "generation": 2,
    "creationTimestamp": "2026-01-02T03:04:05Z",
    "deletionTimestamp": "2026-01-02T03:05:05Z",
    "deletionGracePeriodSeconds": 0,
    "labels": {"a": "b"},
    "annotations": {},
    "finalizers": ["example.org/guard"],
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "o", "controller": True},
    ],
    "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
    "selfLink": "",
}


def key_of(obj: KubeObject) -> ObjectKey:
    return obj.key


def test_metadata_is_read_in_full_and_written_back() -> None:
    meta = decode(ObjectMeta, METADATA)

    assert encode(meta) == METADATA
    assert (meta.name, meta.namespace, meta.generation, meta.labels) == ("x", "ns", 2, {"a": "b"})
    assert meta.owner_references == (OwnerReference("apps/v1", "Deployment", "d", "o", controller=True),)
    assert meta.key == ObjectKey("ns", "x")


def test_a_read_modify_write_changes_only_what_it_should() -> None:
    widget = decode(Widget, {"metadata": METADATA, "size": 0, "spec": {"new": 1}})

    renamed = evolve(widget, metadata=evolve(widget.metadata, finalizers=()), size=2)

    expected = {key: value for key, value in METADATA.items() if key != "finalizers"}
    assert encode(renamed) == {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": expected,
        "size": 2,
        "spec": {"new": 1},
    }


@pytest.mark.parametrize(("api_version", "group"), [("apps/v1", "apps"), ("v1", "")])
def test_an_owner_reference_knows_its_group(api_version: str, group: str) -> None:
    assert OwnerReference(api_version, "Kind", "n", "u").group == group


def test_a_typed_object_has_a_kind_and_a_key() -> None:
    assert key_of(Widget(ObjectMeta(name="x", namespace="ns"))) == ObjectKey("ns", "x")
    assert Widget(ObjectMeta()).kind is Widget.KIND
    assert str(key_of(Box(ObjectMeta(name="b")))) == "b"


def test_type_fields_may_be_absent_as_they_are_in_lists() -> None:
    box = decode(Box, {"metadata": {"name": "b"}})

    assert encode(box) == {"apiVersion": "v1", "kind": "Box", "metadata": {"name": "b"}}


@pytest.mark.parametrize(
    ("fields", "failures"),
    [
        ({"kind": "Box"}, ("expected 'Widget', got 'Box' @ $.kind",)),
        ({"apiVersion": "example.org/v2"}, ("expected 'example.org/v1', got 'example.org/v2' @ $.apiVersion",)),
        ({"kind": None}, ("expected 'Widget', got null @ $.kind",)),
    ],
)
def test_an_object_of_another_kind_is_rejected_and_both_are_named(
    fields: dict[str, Any], failures: tuple[str, ...]
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(Widget, {**fields, "metadata": {}})

    assert caught.value.failures == failures


def test_an_object_needs_metadata() -> None:
    with pytest.raises(DecodeError, match=r"Widget.* \$\.metadata"):
        decode(Widget, {"kind": "Widget"})
