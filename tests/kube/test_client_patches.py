"""Patches and server-side apply, against a real API server."""

from typing import Any

import pytest
from attrs import evolve

from gpuruntime.kube import (
    BadRequestError,
    Client,
    ConflictError,
    InvalidError,
    JsonPatch,
    MergePatch,
    ServerError,
    StrategicPatch,
    dynamic,
    metadata_only,
)
from gpuruntime.kube.builtin.core import ConfigMap, Service
from gpuruntime.meta import DynamicObject, FrozenDict, ObjectMeta, PartialObject, ResourceKind


def config_map(namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="settings", namespace=namespace), data=FrozenDict(data))


def service(namespace: str, *ports: dict[str, Any]) -> DynamicObject:
    body = {"metadata": {"name": "web", "namespace": namespace}, "spec": {"ports": list(ports)}}
    return DynamicObject.decode(Service.KIND, body)


async def test_a_merge_patch_merges_and_null_removes(client: Client, kube_namespace: str) -> None:
    await client.create(config_map(kube_namespace, color="red", size="7"))

    patched = await client.patch(
        ConfigMap, "settings", kube_namespace, MergePatch({"data": {"color": None, "taste": "sweet"}})
    )

    assert patched.data == {"size": "7", "taste": "sweet"}


async def test_a_locked_patch_fails_if_the_object_changed(client: Client, kube_namespace: str) -> None:
    first = await client.create(config_map(kube_namespace, color="red"))
    patch = MergePatch({"data": {"color": "blue"}}).locked(first.metadata.resource_version)

    second = await client.patch(ConfigMap, "settings", kube_namespace, patch)
    with pytest.raises(ConflictError):
        await client.patch(ConfigMap, "settings", kube_namespace, patch)

    assert second.data == {"color": "blue"}


async def test_a_json_patch_tests_before_it_writes(client: Client, kube_namespace: str) -> None:
    await client.create(config_map(kube_namespace, color="red"))
    replace = {"op": "replace", "path": "/data/color", "value": "blue"}

    test = {"op": "test", "path": "/data/color", "value": "red"}
    patched = await client.patch(ConfigMap, "settings", kube_namespace, JsonPatch([test, replace]))
    with pytest.raises(InvalidError):
        await client.patch(ConfigMap, "settings", kube_namespace, JsonPatch([test, replace]))

    assert patched.data == {"color": "blue"}


async def test_a_strategic_patch_merges_lists_by_key(client: Client, kube_namespace: str) -> None:
    await client.create(service(kube_namespace, {"port": 80, "name": "a"}))

    patched = await client.patch(
        Service, "web", kube_namespace, StrategicPatch({"spec": {"ports": [{"port": 81, "name": "b"}]}})
    )

    assert {port.port for port in patched.spec.ports} == {80, 81}


async def test_a_strategic_patch_is_for_built_in_kinds(client: Client) -> None:
    custom = dynamic(ResourceKind("example.org", "v1", "Widget", "widgets", namespaced=True))

    with pytest.raises(ValueError, match="MergePatch or apply"):
        await client.patch(custom, "a", "default", StrategicPatch({}))


async def test_a_patch_of_the_status_leaves_the_rest(client: Client, kube_namespace: str) -> None:
    await client.create(service(kube_namespace, {"port": 80}))
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }

    patched = await client.patch(
        Service,
        "web",
        kube_namespace,
        MergePatch({"spec": {"selector": {"a": "b"}}, "status": {"conditions": [ready]}}),
        subresource="status",
    )

    assert [condition.type for condition in patched.status.conditions] == ["Ready"]
    assert patched.spec.selector == {}


async def test_metadata_is_patched_and_given_back_alone(client: Client, kube_namespace: str) -> None:
    await client.create(config_map(kube_namespace, color="red"))

    patched = await client.patch(
        metadata_only(ConfigMap.KIND), "settings", kube_namespace, MergePatch({"metadata": {"labels": {"a": "b"}}})
    )

    assert isinstance(patched, PartialObject)
    assert patched.metadata.labels == {"a": "b"}


async def test_apply_makes_the_object_and_takes_back_what_is_no_longer_said(
    client: Client, kube_namespace: str
) -> None:
    made = await client.apply(config_map(kube_namespace, color="red", size="7"))
    changed = await client.apply(config_map(kube_namespace, color="red"))
    again = await client.apply(config_map(kube_namespace, color="red"))

    assert made.data == {"color": "red", "size": "7"}
    assert changed.data == {"color": "red"}
    assert again.metadata.resource_version == changed.metadata.resource_version


async def test_two_managers_conflict_unless_one_forces(client: Client, kube_namespace: str) -> None:
    await client.apply(config_map(kube_namespace, color="red"), field_manager="first")

    with pytest.raises(ConflictError) as caught:
        await client.apply(config_map(kube_namespace, color="blue"), field_manager="second")
    forced = await client.apply(config_map(kube_namespace, color="blue"), field_manager="second", force=True)

    assert [(cause.reason, cause.field) for cause in caught.value.causes] == [("FieldManagerConflict", ".data.color")]
    assert "first" in caught.value.causes[0].message
    assert forced.data == {"color": "blue"}


async def test_apply_takes_dynamic_objects_metadata_and_plain_mappings(client: Client, kube_namespace: str) -> None:
    place = {"name": "settings", "namespace": kube_namespace}

    loose = await client.apply(DynamicObject.decode(ConfigMap.KIND, {"metadata": place, "data": {"a": "b"}}))
    plain = await client.apply({"metadata": place, "data": {"c": "d"}}, ConfigMap, field_manager="other")
    labelled = await client.apply(
        PartialObject(ConfigMap.KIND, ObjectMeta(name="settings", namespace=kube_namespace, labels=FrozenDict(e="f"))),
        field_manager="third",
    )

    assert loose.body["data"] == {"a": "b"}
    assert plain.data == {"a": "b", "c": "d"}
    assert labelled.metadata.labels == {"e": "f"}


async def test_apply_refuses_unknown_fields_and_objects_without_a_name(client: Client, kube_namespace: str) -> None:
    # The server says 500 here where every other write says 400.
    with pytest.raises(ServerError, match=r"\.dat"):
        await client.apply({"metadata": {"name": "a", "namespace": kube_namespace}, "dat": {}}, ConfigMap)
    with pytest.raises(ValueError, match="path"):
        await client.apply({"metadata": {"namespace": kube_namespace}}, ConfigMap)


async def test_apply_of_a_status_leaves_the_rest(client: Client, kube_namespace: str) -> None:
    made = await client.create(service(kube_namespace, {"port": 80}))
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"metadata": {"name": "web", "namespace": kube_namespace}, "status": {"conditions": [ready]}}

    applied = await client.apply(status, Service, subresource="status")

    assert applied.spec.ports[0].port == 80
    assert applied.status.conditions[0].reason == "Up"
    assert applied.metadata.uid == made.metadata.uid


async def test_an_object_that_was_read_may_be_applied_only_without_its_history(
    client: Client, kube_namespace: str
) -> None:
    made = await client.apply(config_map(kube_namespace, color="red"))

    with pytest.raises(BadRequestError, match="managedFields"):
        await client.apply(made)
    again = await client.apply(evolve(made, metadata=evolve(made.metadata, managed_fields=())))

    assert again.metadata.uid == made.metadata.uid
