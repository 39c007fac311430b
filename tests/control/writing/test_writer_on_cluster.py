"""Creating, replacing, applying and removing children on a real API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve

from gpuruntime.control.writing.write_errors import (
    BeingDeletedError,
    ForeignObjectError,
    StaleOwnerError,
)
from gpuruntime.control.writing.writer import Writer
from gpuruntime.kube.builtin.core import ConfigMap, Service
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.kube.forms import metadata_only
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.meta.objects import KubeObject, ObjectMeta
from gpuruntime.meta.owners import OwnerError, is_controlled_by, set_controller
from gpuruntime.testing import AuditLog, ClusterAccess
from tests.control.writing_scenes import MANAGER, make_owner, open_client, our_writes


@pytest.fixture
async def client(kube_cluster: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(kube_cluster) as opened:
        yield opened


@pytest.fixture
def writer(client: Client) -> Writer:
    return Writer(client, field_manager=MANAGER)


@pytest.fixture
async def owner(client: Client, kube_namespace: str) -> ConfigMap:
    return await make_owner(client, kube_namespace)


def config(namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="child", namespace=namespace), data=FrozenDict(data))


def owned(obj: ConfigMap, owner: KubeObject) -> ConfigMap:
    return evolve(obj, metadata=set_controller(obj.metadata, owner))


async def test_a_missing_child_is_created_with_its_owner_and_a_hash(
    writer: Writer, owner: ConfigMap, kube_namespace: str, kube_audit: AuditLog
) -> None:
    with kube_audit.recording() as seen:
        outcome = await writer.ensure(config(kube_namespace, a="1"), owner, live=None)

    assert (outcome.result, outcome.object.data) == ("created", {"a": "1"})
    assert is_controlled_by(outcome.object.metadata, owner)
    assert len(outcome.object.metadata.annotations[f"{MANAGER}/desired-hash"]) == 16
    assert our_writes(seen, kube_namespace) == [("create", "configmaps")]


async def test_a_stale_cache_leads_to_a_live_read_and_no_second_write(
    writer: Writer, owner: ConfigMap, kube_namespace: str, kube_audit: AuditLog
) -> None:
    created = await writer.ensure(config(kube_namespace, a="1"), owner, live=None)

    with kube_audit.recording() as seen:
        again = await writer.ensure(config(kube_namespace, a="1"), owner, live=None)
        changed = await writer.ensure(config(kube_namespace, a="2"), owner, live=None)

    assert (again.result, again.object.metadata.uid) == ("unchanged", created.object.metadata.uid)
    assert (changed.result, changed.object.data) == ("updated", {"a": "2"})
    assert [verb for verb, _ in our_writes(seen, kube_namespace)] == ["create", "create", "update"]


async def test_an_update_returns_the_differences_and_removes_what_is_no_longer_desired(
    writer: Writer, owner: ConfigMap, kube_namespace: str
) -> None:
    rich = config(kube_namespace, a="1", b="2")
    rich = evolve(rich, metadata=evolve(rich.metadata, labels=FrozenDict({"ours": "x"})))
    created = await writer.ensure(rich, owner, live=None)

    outcome = await writer.ensure(config(kube_namespace, a="2"), owner, live=created.object)

    assert outcome.result == "updated"
    assert {"data.a", "data.b", f"metadata.annotations[{MANAGER}/desired-hash]"} <= set(outcome.differences)
    assert (outcome.object.data, outcome.object.metadata.labels) == ({"a": "2"}, {})


async def test_a_removed_field_is_noticed_by_the_hash_alone(
    writer: Writer, owner: ConfigMap, kube_namespace: str
) -> None:
    service = Service(metadata=ObjectMeta(name="child", namespace=kube_namespace))
    before: Any = {"selector": {"a": "b"}, "ports": [{"port": 80}], "sessionAffinity": "ClientIP"}
    after: Any = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
    created = await writer.ensure(with_spec(service, before), owner, live=None)

    outcome = await writer.ensure(with_spec(service, after), owner, live=created.object)

    assert outcome.differences == (f"metadata.annotations[{MANAGER}/desired-hash]",)
    assert outcome.object.spec.session_affinity == "None"
    assert outcome.object.spec.cluster_ip == created.object.spec.cluster_ip


async def test_a_stale_child_leads_to_a_conflict_and_no_write(
    writer: Writer, client: Client, owner: ConfigMap, kube_namespace: str
) -> None:
    old = (await writer.ensure(config(kube_namespace, a="1"), owner, live=None)).object
    new = await client.update(evolve(old, data=FrozenDict({"a": "somebody's"})))

    with pytest.raises(ConflictError):
        await writer.ensure(config(kube_namespace, a="2"), owner, live=old)

    assert await client.get(ConfigMap, "child", kube_namespace) == new


async def test_a_cached_child_that_is_gone_is_not_found(
    writer: Writer, client: Client, owner: ConfigMap, kube_namespace: str
) -> None:
    old = (await writer.ensure(config(kube_namespace, a="1"), owner, live=None)).object
    await client.delete(ConfigMap, "child", kube_namespace)

    with pytest.raises(NotFoundError):
        await writer.ensure(config(kube_namespace, a="2"), owner, live=old)


@pytest.mark.parametrize("mode", ["replace", "apply"])
async def test_an_object_of_another_owner_is_refused_and_not_modified(
    mode: Any, writer: Writer, client: Client, owner: ConfigMap, kube_namespace: str
) -> None:
    other = await make_owner(client, kube_namespace, "other")
    theirs = await client.create(owned(config(kube_namespace, a="theirs"), other))

    with pytest.raises(ForeignObjectError, match=r"child .*ConfigMap other"):
        await writer.ensure(config(kube_namespace, a="1"), owner, live=None, mode=mode, adopt=True)
    with pytest.raises(ForeignObjectError):
        await writer.remove(theirs, owner)
    with pytest.raises(ForeignObjectError):
        await writer.ensure(config(kube_namespace, a="1"), None, live=theirs)

    assert await client.get(ConfigMap, "child", kube_namespace) == theirs


async def test_without_an_owner_an_object_that_we_never_wrote_is_refused_unless_adopted(
    writer: Writer, client: Client, kube_namespace: str
) -> None:
    stray = await client.create(config(kube_namespace, a="theirs"))

    with pytest.raises(ForeignObjectError, match="adopt"):
        await writer.ensure(config(kube_namespace, b="ours"), None, live=stray)
    adopted = await writer.ensure(config(kube_namespace, b="ours"), None, live=stray, adopt=True)
    again = await writer.ensure(config(kube_namespace, b="ours"), None, live=adopted.object)

    assert (adopted.result, again.result) == ("updated", "unchanged")


async def test_an_object_without_a_controller_is_refused_unless_adopted(
    writer: Writer, client: Client, owner: ConfigMap, kube_namespace: str
) -> None:
    stray = await client.create(config(kube_namespace, a="1"))

    with pytest.raises(ForeignObjectError, match=r"ConfigMap .*/owner.* adopt"):
        await writer.ensure(config(kube_namespace, a="1"), owner, live=stray)
    outcome = await writer.ensure(config(kube_namespace, a="1"), owner, live=stray, adopt=True)

    assert (outcome.result, outcome.object.metadata.uid) == ("updated", stray.metadata.uid)
    assert is_controlled_by(outcome.object.metadata, owner)
    assert (await writer.ensure(config(kube_namespace, a="1"), owner, live=outcome.object)).result == "unchanged"


async def test_a_child_of_an_earlier_owner_of_the_name_is_stale_and_not_modified(
    writer: Writer, owner: ConfigMap, kube_namespace: str
) -> None:
    # The owner is not deleted, so that the garbage collector does not delete the child during the test.
    child = (await writer.ensure(config(kube_namespace, a="1"), owner, live=None)).object
    again = evolve(owner, metadata=evolve(owner.metadata, uid="the-uid-of-the-next-one"))

    with pytest.raises(StaleOwnerError) as caught:
        await writer.ensure(config(kube_namespace, a="2"), again, live=child, adopt=True)

    assert caught.value.uid == owner.metadata.uid


async def test_a_child_that_is_being_deleted_is_not_modified(
    writer: Writer, client: Client, owner: ConfigMap, kube_namespace: str
) -> None:
    held = config(kube_namespace, a="1")
    held = evolve(held, metadata=evolve(held.metadata, finalizers=("tests.example.org/hold",)))
    child = (await writer.ensure(held, owner, live=None)).object
    first = await writer.remove(child, owner)
    going = await client.get(ConfigMap, "child", kube_namespace)

    with pytest.raises(BeingDeletedError, match=r"tests.example.org/hold"):
        await writer.ensure(held, owner, live=going)
    second = await writer.remove(going, owner)
    await client.update(evolve(going, metadata=evolve(going.metadata, finalizers=())))

    assert (first, second) == (True, False)


async def test_only_the_object_with_the_uid_is_removed_and_a_missing_one_is_no_error(
    writer: Writer, client: Client, owner: ConfigMap, kube_namespace: str
) -> None:
    child = (await writer.ensure(config(kube_namespace, a="1"), owner, live=None)).object
    newer = await client.update(evolve(child, data=FrozenDict({"a": "2"})))
    namesake = evolve(newer, metadata=evolve(newer.metadata, uid="another"))

    with pytest.raises(ConflictError):
        await writer.remove(namesake, owner)
    with pytest.raises(ConflictError):
        await writer.remove(child, owner, unchanged=True)
    partial = await client.get(metadata_only(ConfigMap.KIND), "child", kube_namespace)

    assert await writer.remove(partial, owner, unchanged=True) is True
    assert await writer.remove(newer, owner) is False


async def test_apply_keeps_fields_of_others_and_a_conflict_names_the_field(
    writer: Writer, client: Client, kube_namespace: str
) -> None:
    theirs = await client.apply(config(kube_namespace, a="theirs", b="theirs"), field_manager="them")

    ours = await writer.ensure(config(kube_namespace, c="ours"), None, live=theirs, mode="apply")
    with pytest.raises(ConflictError) as caught:
        await writer.ensure(config(kube_namespace, a="ours", c="ours"), None, live=ours.object, mode="apply")
    forced = await writer.ensure(config(kube_namespace, a="ours"), None, live=ours.object, mode="apply", force=True)

    assert ours.object.data == {"a": "theirs", "b": "theirs", "c": "ours"}
    assert [cause.field for cause in caught.value.causes] == [".data.a"]
    assert forced.object.data == {"a": "ours", "b": "theirs"}


async def test_apply_never_modifies_an_object_that_was_recreated_meanwhile(
    writer: Writer, client: Client, kube_namespace: str
) -> None:
    old = (await writer.ensure(config(kube_namespace, a="1"), None, live=None, mode="apply")).object
    await client.delete(ConfigMap, "child", kube_namespace)
    new = await client.create(config(kube_namespace, b="somebody's"))

    with pytest.raises(ConflictError):
        await writer.ensure(config(kube_namespace, a="2"), None, live=old, mode="apply")

    assert await client.get(ConfigMap, "child", kube_namespace) == new


async def test_invalid_arguments_are_refused_before_any_request(
    client: Client, writer: Writer, owner: ConfigMap, kube_namespace: str
) -> None:
    elsewhere = config("elsewhere", a="1")

    with pytest.raises(OwnerError):
        await writer.ensure(elsewhere, owner, live=None)
    with pytest.raises(ValueError, match="got v1 ConfigMap elsewhere/child"):
        await writer.ensure(config(kube_namespace, a="1"), owner, live=elsewhere)
    with pytest.raises(ValueError, match="name"):
        await writer.ensure(ConfigMap(metadata=ObjectMeta(namespace=kube_namespace)), owner, live=None)
    with pytest.raises(ValueError, match="mode 'apply'"):
        await writer.ensure(config(kube_namespace, a="1"), owner, live=None, force=True)
    with pytest.raises(ValueError, match="uid or version"):
        await writer.remove(config(kube_namespace), None)
    with pytest.raises(ValueError, match="field_manager"):
        Writer(client, field_manager="No Such Name")


def with_spec(service: Service, spec: dict[str, Any]) -> Service:
    return decode(Service, {**encode(service), "spec": spec})
