"""The sequence of states, by resource version."""

import pytest

from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.testing.crashing.world import Event, EventType, ObjectRef, World, moments

NAMESPACES = {"main": "main-1", "stock": "stock-1"}


def event(version: int, event_type: EventType, name: str, namespace: str = "main-1") -> Event:
    obj = {"metadata": {"name": name, "namespace": namespace}}
    return Event(version, event_type, ObjectRef(ConfigMap.KIND, namespace, name), obj)


def names(world: World, role: str | None = None) -> list[str]:
    return [found.metadata.name for found in world.list(ConfigMap, role)]


def test_states_are_ordered_by_resource_version_and_not_by_arrival() -> None:
    events = [event(5, "ADDED", "b"), event(7, "DELETED", "b"), event(3, "ADDED", "a"), event(6, "ADDED", "c")]

    states = list(moments(World(NAMESPACES), events))

    assert [names(moment.world) for moment in states] == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "c"]]
    assert str(states[-1]) == "after DELETED ConfigMap main-1/b"


def test_objects_are_found_by_kind_role_and_name() -> None:
    events = [event(1, "ADDED", "a"), event(2, "ADDED", "a", "stock-1"), event(3, "ADDED", "b", "stock-1")]

    *_, last = moments(World(NAMESPACES), events)

    assert (names(last.world), names(last.world, "stock")) == (["a", "a", "b"], ["a", "b"])
    assert last.world.list(Secret) == ()
    assert last.world.get(ConfigMap, "b") is None
    found = last.world.get(ConfigMap, "b", "stock")
    assert found is not None
    assert found.metadata.namespace == "stock-1"


def test_an_unknown_role_is_an_error() -> None:
    with pytest.raises(KeyError, match="pool"):
        World(NAMESPACES).list(ConfigMap, "pool")
