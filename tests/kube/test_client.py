"""The verbs, against a real API server; the official client shows what is really stored."""

from collections.abc import Iterator
from typing import Any, assert_type

import kubernetes
import pytest
from attrs import evolve, frozen
from kubernetes import config as official_config

from gpuruntime.kube import (
    AlreadyExistsError,
    BadRequestError,
    Client,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    connect,
    dynamic,
    from_kubeconfig,
    metadata_only,
)
from gpuruntime.kube.builtin.core import ConfigMap, Namespace, Service
from gpuruntime.meta import DynamicObject, FrozenDict, ObjectMeta, PartialObject, freeze
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.plugin import AccountFactory


@pytest.fixture
def oracle(kube_cluster: ClusterAccess) -> Iterator[Any]:
    """The core API of the official client."""
    with official_config.new_client_from_config(str(kube_cluster.kubeconfig)) as api:
        yield kubernetes.client.CoreV1Api(api)


def config_map(namespace: str, name: str = "settings", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=FrozenDict(data))


async def test_what_is_created_is_there_and_can_be_read_in_every_form(
    client: Client, kube_namespace: str, oracle: Any
) -> None:
    created = await client.create(config_map(kube_namespace, color="red"))
    typed = await client.get(ConfigMap, "settings", kube_namespace)
    loose = await client.get(dynamic(ConfigMap.KIND), "settings", kube_namespace)
    partial = await client.get(metadata_only(ConfigMap.KIND), "settings", kube_namespace)

    assert_type((created, typed), tuple[ConfigMap, ConfigMap])
    assert_type((loose, partial), tuple[DynamicObject, PartialObject])
    seen = oracle.read_namespaced_config_map("settings", kube_namespace)
    assert created == typed
    assert (seen.data, seen.metadata.uid) == ({"color": "red"}, created.metadata.uid)
    assert loose.body["data"] == {"color": "red"}
    assert partial.metadata == loose.metadata == created.metadata
    assert [entry.manager for entry in seen.metadata.managed_fields] == ["tester"]


async def test_the_server_completes_a_generated_name(client: Client, kube_namespace: str) -> None:
    nameless = ConfigMap(metadata=ObjectMeta(generate_name="part-", namespace=kube_namespace))

    created = await client.create(nameless)

    assert created.metadata.name.startswith("part-")
    assert created.metadata.name != "part-"


async def test_a_second_object_of_the_name_is_refused(client: Client, kube_namespace: str) -> None:
    await client.create(config_map(kube_namespace))

    with pytest.raises(AlreadyExistsError, match='"settings"'):
        await client.create(config_map(kube_namespace))


async def test_an_update_replaces_what_was_read_and_only_that(client: Client, kube_namespace: str, oracle: Any) -> None:
    first = await client.create(config_map(kube_namespace, color="red"))
    second = await client.update(evolve(first, data=FrozenDict(size="7")))

    with pytest.raises(ConflictError):
        await client.update(evolve(first, data=FrozenDict(color="blue")))
    with pytest.raises(ValueError, match="resourceVersion"):
        await client.update(config_map(kube_namespace, color="blue"))
    assert second.metadata.resource_version != first.metadata.resource_version
    assert oracle.read_namespaced_config_map("settings", kube_namespace).data == {"size": "7"}


async def test_an_unchanged_update_keeps_the_version(client: Client, kube_namespace: str) -> None:
    first = await client.create(config_map(kube_namespace, color="red"))

    assert await client.update(first) == first


async def test_a_status_is_updated_by_itself(client: Client, kube_namespace: str, oracle: Any) -> None:
    body = {
        "metadata": {"name": "web", "namespace": kube_namespace},
        "spec": {"ports": [{"port": 80}], "type": "LoadBalancer"},
    }
    made = await client.create(DynamicObject.decode(Service.KIND, body))
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}
    ready = {**made.body, "spec": {**made.body["spec"], "selector": {"a": "b"}}, "status": status}

    await client.update_status(DynamicObject(Service.KIND, freeze(ready)))

    seen = oracle.read_namespaced_service("web", kube_namespace)
    assert seen.status.load_balancer.ingress[0].ip == "192.0.2.1"
    assert seen.spec.selector is None


@frozen
class Palette(ConfigMap):
    """A kind of a user's own making, over a built-in one."""

    @property
    def color(self) -> str:
        return self.data["color"]


async def test_any_subclass_of_a_typed_kind_is_a_form(client: Client, kube_namespace: str) -> None:
    made = await client.create(
        Palette(metadata=ObjectMeta(name="p", namespace=kube_namespace), data=FrozenDict(color="red"))
    )
    listed = await client.list(Palette, kube_namespace, fields="metadata.name=p")

    assert type(made) is Palette
    assert [item.color for item in listed.items] == ["red"]


async def test_an_unknown_field_is_refused_and_not_dropped(client: Client, kube_namespace: str) -> None:
    typo = {"metadata": {"name": "a", "namespace": kube_namespace}, "dat": {"a": "b"}}

    with pytest.raises(BadRequestError, match='"dat"'):
        await client.create(DynamicObject.decode(ConfigMap.KIND, typo))


async def test_an_invalid_object_is_refused_with_the_fields_that_are_wrong(client: Client, kube_namespace: str) -> None:
    body = {"metadata": {"name": "web", "namespace": kube_namespace}, "spec": {"ports": [{"port": 0}]}}

    with pytest.raises(InvalidError) as caught:
        await client.create(DynamicObject.decode(Service.KIND, body))

    assert "spec.ports[0].port" in [cause.field for cause in caught.value.causes]
    assert all(cause.message for cause in caught.value.causes)


async def test_invalid_arguments_are_refused_before_anything_is_sent(client: Client) -> None:
    with pytest.raises(ValueError, match="namespace"):
        await client.create(ConfigMap(metadata=ObjectMeta(name="a")))
    with pytest.raises(ValueError, match="namespace"):
        await client.delete_all(ConfigMap, "", "a=b")
    with pytest.raises(ValueError, match="namespace, got 'default'"):
        await client.get(Namespace, "default", "default")
    with pytest.raises(TypeError, match="PartialObject"):
        await client.create(  # type: ignore[call-overload]  # the mistake under test
            PartialObject(ConfigMap.KIND, ObjectMeta(name="a", namespace="default"))
        )


async def test_a_dry_run_stores_nothing_for_any_verb(
    client: Client, kube_namespace: str, kube_cluster: ClusterAccess, kube_audit: AuditLog
) -> None:
    made = await client.create(config_map(kube_namespace, color="red"))
    async with connect(from_kubeconfig(kube_cluster.kubeconfig), dry_run=True, user_agent="rehearsal") as rehearsal:
        with kube_audit.recording() as seen:
            created = await rehearsal.create(config_map(kube_namespace, "other"))
            updated = await rehearsal.update(evolve(made, data=FrozenDict(color="blue")))
            applied = await rehearsal.apply(config_map(kube_namespace, "third"))
            await rehearsal.delete(ConfigMap, "settings", kube_namespace)
            await rehearsal.delete_all(ConfigMap, kube_namespace, "")
            await rehearsal.create(config_map(kube_namespace, "real"), dry_run=False)

    listed = await client.list(ConfigMap, kube_namespace)
    assert created.metadata.uid
    assert (updated.data, applied.metadata.name) == ({"color": "blue"}, "third")
    assert [request.verb for request in seen.requests if request.user_agent == "rehearsal"] == [
        *("create", "update", "patch", "delete", "deletecollection", "create"),
    ]
    assert {item.metadata.name for item in listed.items} - {"kube-root-ca.crt"} == {"settings", "real"}
    assert made in listed.items


async def test_what_an_account_may_not_do_is_forbidden(
    client: Client, kube_account: AccountFactory, kube_namespace: str
) -> None:
    account = kube_account(rules=[{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}])
    await client.create(config_map(kube_namespace, color="red"))

    async with connect(from_kubeconfig(account.kubeconfig)) as reader:
        read = await reader.get(ConfigMap, "settings", kube_namespace)
        with pytest.raises(ForbiddenError, match=account.username):
            await reader.delete(ConfigMap, "settings", kube_namespace)

    assert read.data == {"color": "red"}


async def test_pages_cover_the_collection_once(client: Client, kube_namespace: str) -> None:
    names = {f"n{index:02}" for index in range(23)}
    for name in sorted(names):
        await client.create(
            ConfigMap(metadata=ObjectMeta(name=name, namespace=kube_namespace, labels=FrozenDict(a="b")))
        )

    pages = [page async for page in client.pages(ConfigMap, kube_namespace, labels="a=b", page_size=10)]
    listed = await client.list(dynamic(ConfigMap.KIND), kube_namespace, labels="a=b", page_size=7)
    at_hand = await client.list(metadata_only(ConfigMap.KIND), labels="a=b", resource_version=listed.resource_version)

    assert [len(page.items) for page in pages] == [10, 10, 3]
    assert len({page.resource_version for page in pages}) == 1
    assert {item.metadata.name for page in pages for item in page.items} == names
    assert {item.metadata.name for item in listed.items} == names
    assert {item.metadata.name for item in at_hand.items} >= names


async def test_a_missing_object_is_not_found(client: Client, kube_namespace: str) -> None:
    with pytest.raises(NotFoundError, match='"nobody"') as caught:
        await client.get(ConfigMap, "nobody", kube_namespace)

    assert caught.value.reason == "NotFound"
