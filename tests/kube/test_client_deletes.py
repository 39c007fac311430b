"""Deletions and subresources, against a real API server."""

from typing import Any

import pytest

from gpuruntime.kube import Client, ConflictError, MergePatch, NotFoundError, dynamic, metadata_only
from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import ConfigMap, ServiceAccount
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta import DynamicObject, FrozenDict, ObjectMeta, set_controller


def config_map(namespace: str, name: str = "settings", **labels: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels=FrozenDict(labels)))


def template(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}


async def test_what_is_deleted_is_gone(client: Client, kube_namespace: str) -> None:
    await client.create(config_map(kube_namespace))
    await client.delete(ConfigMap, "settings", kube_namespace)

    with pytest.raises(NotFoundError):
        await client.get(ConfigMap, "settings", kube_namespace)
    with pytest.raises(NotFoundError):
        await client.delete(ConfigMap, "settings", kube_namespace)


async def test_a_namesake_and_a_newer_version_are_spared(client: Client, kube_namespace: str) -> None:
    made = await client.create(config_map(kube_namespace))
    newer = await client.update(config_map_with(made, a="b"))

    with pytest.raises(ConflictError):
        await client.delete(ConfigMap, "settings", kube_namespace, uid="00000000-0000-0000-0000-000000000000")
    with pytest.raises(ConflictError):
        await client.delete(ConfigMap, "settings", kube_namespace, resource_version=made.metadata.resource_version)
    assert await client.get(ConfigMap, "settings", kube_namespace) == newer
    await client.delete(
        metadata_only(ConfigMap.KIND),
        "settings",
        kube_namespace,
        uid=newer.metadata.uid,
        resource_version=newer.metadata.resource_version,
    )


def config_map_with(made: ConfigMap, **data: str) -> ConfigMap:
    return ConfigMap(metadata=made.metadata, data=FrozenDict(data))


async def test_an_owner_deleted_in_the_foreground_waits_for_its_children(client: Client, kube_namespace: str) -> None:
    owner = await client.create(config_map(kube_namespace, "owner"))
    child = ObjectMeta(name="child", namespace=kube_namespace, finalizers=("example.org/hold",))
    await client.create(ConfigMap(metadata=set_controller(child, owner)))

    await client.delete(ConfigMap, "owner", kube_namespace, propagation="Foreground")

    deleted = await client.get(ConfigMap, "owner", kube_namespace)
    assert deleted.metadata.deletion_timestamp is not None
    assert deleted.metadata.finalizers == ("foregroundDeletion",)
    await client.patch(ConfigMap, "child", kube_namespace, MergePatch({"metadata": {"finalizers": None}}))


async def test_all_that_the_labels_select_go_and_no_others(client: Client, kube_namespace: str) -> None:
    for name, color in (("a", "red"), ("b", "red"), ("c", "blue")):
        await client.create(config_map(kube_namespace, name, color=color))

    await client.delete_all(ConfigMap, kube_namespace, "color=red")

    left = await client.list(ConfigMap, kube_namespace, labels="color")
    assert [item.metadata.name for item in left.items] == ["c"]


async def test_a_deployment_is_scaled_through_its_subresource(client: Client, kube_namespace: str) -> None:
    body = {
        "metadata": {"name": "web", "namespace": kube_namespace},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template(a="b")},
    }
    await client.create(DynamicObject.decode(Deployment.KIND, body))

    scale = await client.read_subresource(Deployment, "web", kube_namespace, "scale")
    scale["spec"]["replicas"] = 2
    # Without a version it does not matter that the controller has just written the status.
    del scale["metadata"]["resourceVersion"]
    scaled = await client.update_subresource(Deployment, "web", kube_namespace, "scale", scale)

    assert scaled["kind"] == "Scale"
    assert (await client.get(Deployment, "web", kube_namespace)).spec.replicas == 2
    with pytest.raises(ValueError, match="update_subresource"):
        await client.patch(Deployment, "web", kube_namespace, MergePatch({}), subresource="scale")


async def test_an_account_gets_a_token(client: Client, kube_namespace: str) -> None:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}

    answer = await client.create_subresource(ServiceAccount, "default", kube_namespace, "token", request)

    assert answer["status"]["token"].count(".") == 2


async def test_a_pod_is_bound_and_evicted(client: Client, kube_namespace: str) -> None:
    spec = {**template()["spec"], "schedulerName": "nobody"}
    body = {"metadata": {"name": "web", "namespace": kube_namespace}, "spec": spec}
    await client.create(DynamicObject.decode(Pod.KIND, body))

    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web"},
        "target": {"kind": "Node", "name": "gpu-1"},
    }
    bound = await client.create_subresource(Pod, "web", kube_namespace, "binding", binding)
    node = (await client.get(dynamic(Pod.KIND), "web", kube_namespace)).body["spec"]["nodeName"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": kube_namespace}}
    evicted = await client.create_subresource(Pod, "web", kube_namespace, "eviction", eviction)

    assert (bound["status"], evicted["status"], node) == ("Success", "Success", "gpu-1")
