"""The JSON of desired objects, and their ownership annotations."""

from typing import Any

import orjson
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.writing.desired_state import OwnershipAnnotations, desired_body
from gpuruntime.kube.builtin.core import ConfigMap, Namespace, Secret
from gpuruntime.meta.codec import decode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import KubeObject, ObjectMeta

WIDGET = ResourceKind("x.org", "v1", "Widget", "widgets", namespaced=True)
OWNERSHIP = OwnershipAnnotations("tests.example.org")
HASH, KEYS = "tests.example.org/desired-hash", "tests.example.org/desired-keys"
OWNER, OWNER_UID = "tests.example.org/owner", "tests.example.org/owner-uid"


def config(**metadata: Any) -> ConfigMap:
    return decode(ConfigMap, {"metadata": {"name": "x", "namespace": "a", **metadata}, "data": {"k": "v"}})


def annotated(obj: ConfigMap) -> dict[str, Any]:
    return OWNERSHIP.put_on(desired_body(obj, None))


def hash_of(obj: ConfigMap) -> str:
    return str(annotated(obj)["metadata"]["annotations"][HASH])


def test_identity_version_and_status_are_not_desired() -> None:
    namespace = decode(
        Namespace,
        {
            "metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "generation": 2, "creationTimestamp": "t"},
            "status": {"phase": "Active"},
        },
    )

    assert desired_body(namespace, None) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}


def test_the_owner_becomes_the_controller() -> None:
    owner = config(name="owner", uid="u")

    body = desired_body(config(), owner)

    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u"}
    assert body["metadata"]["ownerReferences"] == [{**reference, "controller": True, "blockOwnerDeletion": True}]


def test_the_string_data_of_a_secret_is_written_as_data() -> None:
    secret = Secret(
        metadata=ObjectMeta(name="x", namespace="a"),
        data=FrozenDict({"a": "YQ==", "b": "old"}),
        string_data=FrozenDict({"b": "b"}),
    )

    body = desired_body(secret, None)

    assert body["data"] == {"a": "YQ==", "b": "Yg=="}
    assert "stringData" not in body


def test_the_hash_covers_the_desired_state_and_nothing_else() -> None:
    same = [config(), config(uid="u", resourceVersion="7"), evolve(config(), metadata=config().metadata)]
    others = [config(labels={"a": "b"}), config(annotations={"a": "b"}), evolve(config(), data=FrozenDict())]

    assert len({hash_of(obj) for obj in same}) == 1
    assert len({hash_of(obj) for obj in (*same, *others)}) == 1 + len(others)


def test_the_hash_is_stable_across_versions_of_the_library() -> None:
    assert hash_of(config()) == "a124b41c19479f21"


@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_fields_does_not_matter_to_the_hash(names: list[str]) -> None:
    labels = FrozenDict(dict.fromkeys(names, ""))

    assert hash_of(config(labels=labels)) == hash_of(config(labels={"a": "", "b": "", "c": "", "d": ""}))


def test_the_annotations_name_our_entries_and_do_not_modify_the_given_body() -> None:
    body = desired_body(config(labels={"b": "", "a": ""}, annotations={"x/y": "z"}), None)

    result = OWNERSHIP.put_on(body)

    assert body["metadata"]["annotations"] == {"x/y": "z"}
    assert orjson.loads(result["metadata"]["annotations"][KEYS]) == {
        "metadata.annotations": ["x/y"],
        "metadata.labels": ["a", "b"],
    }
    assert OWNERSHIP.ours(result, ("metadata", "labels")) == {"a", "b"}
    assert OWNERSHIP.ours(result, ("metadata", "annotations")) == {"x/y", HASH, KEYS, OWNER, OWNER_UID}
    assert KEYS not in annotated(config())["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        (config(name="owner", uid="u"), "configmaps/owner"),
        (decode(Namespace, {"metadata": {"name": "owner", "uid": "u"}}), "namespaces/owner"),
        (
            DynamicObject.decode(WIDGET, {"metadata": {"name": "owner", "namespace": "a", "uid": "u"}}),
            "widgets.x.org/owner",
        ),
    ],
)
def test_the_annotations_name_the_owner_and_the_hash_ignores_it(owner: KubeObject, text: str) -> None:
    body = OWNERSHIP.put_on(desired_body(config(), owner), owner)

    meta = decode(ConfigMap, body).metadata
    assert (meta.annotations[OWNER], meta.annotations[OWNER_UID]) == (text, "u")
    assert (OWNERSHIP.owner_uid(meta), OWNERSHIP.owner_key(meta, owner.kind)) == ("u", owner.key)
    assert OWNERSHIP.owner_key(meta, ResourceKind("y.org", "v1", "Widget", "widgets", namespaced=True)) is None
    assert meta.annotations[HASH] == hash_of(config())


@given(st.text(max_size=20) | st.sampled_from(["[]", "1", '{"metadata.labels": 1}', '{"metadata.labels": [{}]}']))
def test_corrupted_annotations_are_ignored(text: str) -> None:
    live = {"metadata": {"annotations": {KEYS: text}}}

    assert OWNERSHIP.ours(live, ("metadata", "labels")) == frozenset()
    assert OWNERSHIP.ours({}, ("metadata", "labels")) == frozenset()


def test_a_name_is_required_and_a_field_manager_is_a_dns_name() -> None:
    assert config().key == ObjectKey("a", "x")
    with pytest.raises(ValueError, match="name for the desired v1 ConfigMap"):
        desired_body(config(name=""), None)
    with pytest.raises(ValueError, match=r"field_manager: .*'a/b'"):
        OwnershipAnnotations("a/b")
