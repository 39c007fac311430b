"""Whom a change concerns."""

from collections.abc import Iterable
from typing import Any

import pytest

from gpuruntime.control.controllers.triggers import enqueue_mapped, enqueue_object, enqueue_owner
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.indexer import Entry, Indexer
from gpuruntime.control.informers.storage import eager, projected
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.identity import ObjectKey, ResourceKind

WIDGET = ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True)
FLEET = ResourceKind("example.org", "v1", "Fleet", "fleets", namespaced=False)
STORAGE = eager(ConfigMap)


def state(*owners: dict[str, Any], **data: str) -> Entry:
    metadata = {"name": "x", "namespace": "a", "uid": "u", "resourceVersion": "1", "ownerReferences": list(owners)}
    return Indexer(STORAGE, ()).entry({"metadata": metadata, "data": data}, 10)


def owned_by(name: str, kind: str = "Widget", api: str = "example.org/v1", controller: Any = True) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": controller}


def keys(found: Iterable[ObjectKey]) -> list[str]:
    return [str(key) for key in found]


@pytest.mark.parametrize(("old", "new"), [(None, state()), (state(), state()), (state(), None)])
def test_itself_is_the_object_that_changed(old: Entry | None, new: Entry | None) -> None:
    assert keys(enqueue_object()(Change(STORAGE, old, new))) == ["a/x"]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (owned_by("w"), ["a/w"]),
        (owned_by("w", api="example.org/v1alpha1"), ["a/w"]),
        (owned_by("w", api="example.com/v1"), []),
        (owned_by("w", kind="Gadget"), []),
        (owned_by("w", controller=False), []),
        (owned_by("w", controller=None), []),
    ],
    ids=["controller", "another version", "another group", "another kind", "no controller", "unsaid"],
)
def test_the_owner_is_the_one_of_the_kind_that_controls(reference: dict[str, Any], expected: list[str]) -> None:
    assert keys(enqueue_owner(WIDGET)(Change(STORAGE, None, state(reference)))) == expected


def test_all_owners_of_the_kind_are_concerned_if_that_is_asked_for() -> None:
    change = Change(STORAGE, None, state(owned_by("w"), owned_by("v", controller=False), owned_by("f", "Fleet")))

    assert keys(enqueue_owner(WIDGET, controller_only=False)(change)) == ["a/w", "a/v"]


def test_an_owner_without_a_namespace_has_a_key_without_one() -> None:
    assert keys(enqueue_owner(FLEET)(Change(STORAGE, None, state(owned_by("f", "Fleet"))))) == ["f"]


def test_an_object_that_moves_concerns_both_owners_and_one_that_stays_concerns_its_owner_once() -> None:
    moved = Change(STORAGE, state(owned_by("old")), state(owned_by("new")))
    stayed = Change(STORAGE, state(owned_by("w")), state(owned_by("w"), b="2"))
    left = Change(STORAGE, state(owned_by("w")), state())

    assert keys(enqueue_owner(WIDGET)(moved)) == ["a/old", "a/new"]
    assert keys(enqueue_owner(WIDGET)(stayed)) == ["a/w"]
    assert keys(enqueue_owner(WIDGET)(left)) == ["a/w"]


def test_a_deleted_object_concerns_its_last_owner() -> None:
    assert keys(enqueue_owner(WIDGET)(Change(STORAGE, state(owned_by("w")), None))) == ["a/w"]


def test_a_mapping_is_asked_about_both_states_and_each_key_comes_once() -> None:
    trigger = enqueue_mapped(lambda obj: obj.data.values())

    assert list(trigger(Change(STORAGE, None, state(a="1")))) == ["1"]
    assert list(trigger(Change(STORAGE, state(a="1", b="2"), state(a="2", b="3")))) == ["1", "2", "3"]
    assert list(trigger(Change(STORAGE, state(a="1"), None))) == ["1"]


def test_a_mapping_works_on_projections_too_empty_ones_included() -> None:
    storage = projected(ConfigMap.KIND, lambda raw: len(raw["data"]))
    entries = [Indexer(storage, ()).entry({"metadata": {"name": "x"}, "data": data}, 10) for data in ({}, {"a": "1"})]

    assert list(enqueue_mapped(lambda size: [size])(Change(storage, *entries))) == [0, 1]
