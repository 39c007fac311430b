"""What is kept of an object, and what is read back."""

import json
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from gpuruntime.control.informers.indexer import Indexer
from gpuruntime.control.informers.storage import Storage, compact, eager, projected, trim_metadata
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.kube.forms import dynamic, metadata_only
from gpuruntime.meta.decode_errors import DecodeError

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def raw(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "namespace": "a", "resourceVersion": "1", "uid": "u"}, **fields}


def size(value: Any) -> int:
    return len(json.dumps(value))


def test_bulk_is_dropped_and_nothing_else() -> None:
    annotations = {LAST_APPLIED: "{}", "mine": "1"}
    bulky = raw(data={"managedFields": "mine, too"})
    bulky["metadata"] |= {"managedFields": [{"manager": "m"}], "annotations": annotations}

    kept = trim_metadata(bulky)

    assert kept["metadata"] == {**raw()["metadata"], "annotations": {"mine": "1"}}
    assert kept["data"] == {"managedFields": "mine, too"}


@given(st.dictionaries(st.sampled_from(["metadata", "data"]), st.none() | st.integers() | st.lists(st.integers())))
def test_there_may_be_nothing_to_drop(odd: dict[str, Any]) -> None:
    assert trim_metadata(dict(odd)) == odd
    assert trim_metadata({"metadata": {"annotations": odd}}) == {"metadata": {"annotations": odd}}


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_objects_are_read_as_they_came_and_are_immutable(data: dict[str, str]) -> None:
    storages: list[Storage[ConfigMap]] = [eager(ConfigMap), compact(ConfigMap)]
    for storage in storages:
        read = storage.read(storage.keep(raw(data=data)))

        assert (read.key.name, read.data) == ("x", data)
        with pytest.raises(TypeError):
            read.data["new"] = "value"
        with pytest.raises(FrozenInstanceError):
            read.metadata = None  # type: ignore[misc,assignment] # what must not work


def test_an_eager_read_returns_the_same_object_each_time() -> None:
    storage = eager(ConfigMap)
    kept = storage.keep(raw(data={"a": "1"}))

    assert storage.read(kept) is storage.read(kept)


def test_an_eager_storage_refuses_what_does_not_fit_and_a_compact_one_does_so_on_reading() -> None:
    odd = raw(data=5)

    with pytest.raises(DecodeError):
        eager(ConfigMap).keep(odd)
    kept = compact(ConfigMap).keep(odd)
    with pytest.raises(DecodeError):
        compact(ConfigMap).read(kept)


def test_a_projection_keeps_what_the_function_picks() -> None:
    storage = projected(ConfigMap.KIND, lambda obj: len(obj["data"]))

    kept = storage.keep(raw(data={"a": "1", "b": "2"}))

    assert (kept, storage.read(kept)) == (2, 2)


def test_a_projection_to_none_is_a_fault_because_none_says_that_there_is_no_object() -> None:
    storage: Any = projected(ConfigMap.KIND, lambda obj: obj.get("data"))

    entry = Indexer(storage, ()).entry(raw(), 100)

    assert (entry.fault or "").startswith("TypeError: the projection of v1 ConfigMap returned None")


def test_storages_are_equal_if_they_keep_the_same_in_the_same_way() -> None:
    def project(obj: Any) -> int:
        return size(obj)

    def transform(obj: dict[str, Any]) -> dict[str, Any]:
        return obj

    kind = ConfigMap.KIND
    same = [
        (eager(ConfigMap), eager(ConfigMap)),
        (compact(metadata_only(kind)), compact(metadata_only(kind))),
        (projected(kind, project), projected(kind, project)),
    ]
    different: list[Any] = [
        eager(ConfigMap),
        eager(ConfigMap, transform),
        eager(dynamic(kind)),
        eager(metadata_only(kind)),
        compact(ConfigMap),
        projected(kind, project),
        projected(kind, size),
    ]

    assert all(one == other and hash(one) == hash(other) for one, other in same)
    assert len(set(different)) == len(different)


def test_a_storage_asks_for_what_its_form_can_read() -> None:
    partial = metadata_only(ConfigMap.KIND)

    for storage in (eager(partial), compact(partial)):
        assert (storage.kind, storage.accept, storage.list_accept) == (
            ConfigMap.KIND,
            partial.accept,
            partial.list_accept,
        )
    plain = projected(ConfigMap.KIND, size)
    assert (plain.kind, plain.accept, plain.list_accept) == (ConfigMap.KIND, "application/json", "application/json")


def test_a_transform_runs_before_anything_else_sees_the_object() -> None:
    def redact(obj: dict[str, Any]) -> dict[str, Any]:
        return {**obj, "data": dict.fromkeys(obj["data"], "***")}

    for storage in (eager(ConfigMap, redact), compact(ConfigMap, redact)):
        entry = Indexer(storage, ()).entry(raw(data={"a": "secret"}), 100)

        assert storage.read(entry.kept).data == {"a": "***"}
