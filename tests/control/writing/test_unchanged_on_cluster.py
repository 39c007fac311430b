"""A second reconcile of an unchanged object makes no writes, with the defaulting of a real API server."""

import uuid
from collections.abc import AsyncIterator

import pytest

from gpuruntime.control.writing.comparison import differences
from gpuruntime.control.writing.writer import Writer
from gpuruntime.kube.client import Client
from gpuruntime.kube.forms import dynamic, form_of
from gpuruntime.meta.codec import encode
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.objects import TypedObject
from gpuruntime.testing import AuditLog, ClusterAccess
from tests.control.rich_children import NAMESPACED, child, priority_class
from tests.control.writing_scenes import MANAGER, ensure_as_a_controller_does, make_owner, open_client, our_writes


@pytest.fixture
async def client(kube_cluster: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(kube_cluster) as opened:
        yield opened


@pytest.mark.parametrize("name", NAMESPACED)
async def test_a_second_pass_writes_nothing(
    name: str, client: Client, kube_namespace: str, kube_audit: AuditLog
) -> None:
    writer, desired = Writer(client, field_manager=MANAGER), child(name, kube_namespace)
    owner = await make_owner(client, kube_namespace)
    first = await writer.ensure(desired, owner, live=None)
    live: TypedObject = await client.get(form_of(desired), name, kube_namespace)

    with kube_audit.recording() as seen:
        second = await writer.ensure(desired, owner, live=live)

    assert (first.result, second.result, second.object) == ("created", "unchanged", live)
    assert our_writes(seen, kube_namespace) == []


@pytest.mark.parametrize("name", NAMESPACED)
async def test_a_second_pass_writes_nothing_after_the_object_was_replaced(
    name: str, client: Client, kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    desired, owner = child(name, kube_namespace), await make_owner(client, kube_namespace)
    created = await Writer(client, field_manager=MANAGER).ensure(desired, owner, live=None)
    without_marks = {"metadata": {"annotations": {f"{MANAGER}/desired-hash": None}, "labels": None}}
    kube_cluster.admin().merge(desired.kind.path(kube_namespace, name), without_marks)

    replaced = await ensure_as_a_controller_does(client, desired, owner)
    last = await ensure_as_a_controller_does(client, desired, owner)

    assert (replaced.result, last.result) == ("updated", "unchanged")
    assert differences(encode(created.object), encode(last.object)) == ()


@pytest.mark.parametrize("name", NAMESPACED)
async def test_a_second_pass_of_a_dynamic_object_by_server_side_apply_writes_nothing(
    name: str, client: Client, kube_namespace: str, kube_audit: AuditLog
) -> None:
    writer, typed = Writer(client, field_manager=MANAGER), child(name, kube_namespace)
    desired = DynamicObject.decode(typed.kind, encode(typed))
    first = await writer.ensure(desired, None, live=None, mode="apply")
    live = await client.get(dynamic(typed.kind), name, kube_namespace)

    with kube_audit.recording() as seen:
        second = await writer.ensure(desired, None, live=live, mode="apply")

    assert (first.result, second.result) == ("created", "unchanged")
    assert our_writes(seen, kube_namespace) == []


async def test_a_second_pass_of_a_cluster_scoped_object_without_owner_writes_nothing(
    client: Client, kube_audit: AuditLog
) -> None:
    writer, desired = Writer(client, field_manager=MANAGER), priority_class(f"test-{uuid.uuid4().hex[:10]}")
    first = await writer.ensure(desired, None, live=None)

    with kube_audit.recording() as seen:
        second = await writer.ensure(desired, None, live=first.object)
    await writer.remove(second.object, None)

    assert second.result == "unchanged"
    assert our_writes(seen, "", desired.metadata.name) == []
