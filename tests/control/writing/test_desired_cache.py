"""The cache of desired states: an unchanged desired object is encoded once."""

from typing import Any

import pytest
from attrs import evolve

from gpuruntime.control.writing import desired_cache as room
from gpuruntime.control.writing.desired_cache import DesiredStateCache
from gpuruntime.control.writing.desired_state import OwnershipAnnotations, desired_body
from gpuruntime.kube.builtin.core import ConfigMap
from gpuruntime.meta.codec import decode

OWNERSHIP = OwnershipAnnotations("tests.example.org")
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "o"}


def config(name: str = "x", value: str = "v", **metadata: Any) -> ConfigMap:
    return decode(ConfigMap, {"metadata": {"name": name, "namespace": "a", **metadata}, "data": {"k": value}})


def test_the_same_object_for_the_same_owner_is_cached() -> None:
    cache, desired, owner = DesiredStateCache(OWNERSHIP), config(), config("owner", uid="u", resourceVersion="1")

    first = cache.of(desired, owner, "replace")
    second = cache.of(desired, evolve(owner, metadata=evolve(owner.metadata, resource_version="2")), "replace")

    assert first is second
    assert first.body == OWNERSHIP.put_on(desired_body(desired, owner), owner)


@pytest.mark.parametrize(
    ("desired", "owner", "mode"),
    [
        pytest.param(config(value="other"), config("owner", uid="u"), "replace", id="other content"),
        pytest.param(config(), config("owner", uid="u"), "replace", id="an equal value that is another object"),
        pytest.param(None, config("owner", uid="made again"), "replace", id="an owner that was made again"),
        pytest.param(None, None, "replace", id="no owner"),
        pytest.param(None, config("owner", uid="u"), "apply", id="another mode"),
    ],
)
def test_a_changed_desired_state_is_encoded_again_and_not_fulfilled_yet(
    desired: ConfigMap | None, owner: ConfigMap | None, mode: str
) -> None:
    cache, before = DesiredStateCache(OWNERSHIP), config()
    known = cache.of(before, config("owner", uid="u"), "replace")
    known.fulfilled = before

    state = cache.of(desired or before, owner, mode)

    assert state.fulfilled is None
    assert state.body == OWNERSHIP.put_on(desired_body(desired or before, owner), owner)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_CACHE_SIZE", 2)
    cache, objects = DesiredStateCache(OWNERSHIP), [config(str(number)) for number in range(3)]

    first = [cache.of(each, None, "replace") for each in objects]

    assert cache.of(objects[2], None, "replace") is first[2]
    assert cache.of(objects[0], None, "replace") is not first[0]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"generation": 1, "resourceVersion": "1"}, {"generation": 1, "resourceVersion": "2"}, True),
        ({"generation": 1}, {"generation": 2}, False),
        ({"generation": 1}, {"generation": 1, "uid": "another"}, False),
        ({"generation": 1}, {"generation": 1, "annotations": {"a": "b"}}, False),
        ({"generation": 1}, {"generation": 1, "labels": {"a": "b"}}, False),
        ({"generation": 1}, {"generation": 1, "finalizers": ["a"]}, False),
        ({"generation": 1, "ownerReferences": [OWNER]}, {"generation": 1}, False),
        ({}, {}, False),
    ],
)
def test_an_object_of_the_same_generation_and_metadata_is_still_fulfilled(
    before: dict[str, Any], after: dict[str, Any], expected: bool
) -> None:
    state = DesiredStateCache(OWNERSHIP).of(config(), None, "replace")
    assert not state.is_fulfilled_by(config(**{"uid": "u", **after}))

    state.fulfilled = config(**{"uid": "u", **before})

    assert state.is_fulfilled_by(config(**{"uid": "u", **after})) is expected
    assert state.is_fulfilled_by(state.fulfilled)
