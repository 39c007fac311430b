"""Status writes on a real API server."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from attrs import evolve

from gpuruntime.control.writing.status import write_status
from gpuruntime.kube.builtin.core import ConfigMap, Namespace, NamespaceStatus
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaim, PersistentVolumeClaimStatus
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.kube.forms import dynamic
from gpuruntime.meta.codec import decode
from gpuruntime.meta.conditions import Condition, set_condition
from gpuruntime.meta.frozen_mapping import FrozenDict
from gpuruntime.testing import AuditLog, ClusterAccess
from tests.control.rich_children import child
from tests.control.writing_scenes import make_owner, open_client, our_writes

EARLIER = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)
READY = Condition("Ready", "True", "AllGood")


@pytest.fixture
async def client(kube_cluster: ClusterAccess) -> AsyncIterator[Client]:
    async with open_client(kube_cluster) as opened:
        yield opened


@pytest.fixture
async def pvc(client: Client, kube_namespace: str) -> PersistentVolumeClaim:
    """A PersistentVolumeClaim without a class: no controller writes its status once it is pending."""
    made = child("claim", kube_namespace)
    assert isinstance(made, PersistentVolumeClaim)
    await client.create(made)
    return await client.get(PersistentVolumeClaim, "claim", kube_namespace)


def with_condition(pvc: PersistentVolumeClaim, condition: Condition, now: datetime) -> PersistentVolumeClaimStatus:
    return evolve(pvc.status, conditions=set_condition(pvc.status.conditions, condition, now))


async def test_an_unchanged_status_is_written_once(
    client: Client, pvc: PersistentVolumeClaim, kube_namespace: str, kube_audit: AuditLog
) -> None:
    with kube_audit.recording() as seen:
        written = await write_status(client, pvc, with_condition(pvc, READY, EARLIER))
        assert written is not None
        again = await write_status(client, written, with_condition(written, READY, LATER))

    assert [condition.last_transition_time for condition in written.status.conditions] == ["2026-01-01T00:00:00Z"]
    assert again is None
    assert our_writes(seen, kube_namespace) == [("patch", "persistentvolumeclaims")]


async def test_nothing_but_the_status_is_written(client: Client, pvc: PersistentVolumeClaim) -> None:
    relabelled = evolve(pvc, metadata=evolve(pvc.metadata, labels=FrozenDict({"new": "x"})))

    written = await write_status(client, relabelled, with_condition(pvc, READY, EARLIER))

    assert written is not None
    assert written.metadata.labels == pvc.metadata.labels
    assert len(written.status.conditions) == 1


async def test_a_concurrent_change_is_a_conflict(
    client: Client, pvc: PersistentVolumeClaim, kube_namespace: str
) -> None:
    newer = await write_status(client, pvc, with_condition(pvc, READY, EARLIER))

    with pytest.raises(ConflictError):
        await write_status(client, pvc, with_condition(pvc, evolve(READY, status="False"), LATER))

    found = await client.get(PersistentVolumeClaim, "claim", kube_namespace)
    assert newer is not None
    assert found.metadata.resource_version == newer.metadata.resource_version


async def test_an_object_that_is_gone_is_not_found(client: Client, pvc: PersistentVolumeClaim) -> None:
    gone = evolve(pvc, metadata=evolve(pvc.metadata, name="gone"))

    with pytest.raises(NotFoundError):
        await write_status(client, gone, with_condition(pvc, READY, EARLIER))


async def test_a_dynamic_object_takes_a_mapping(
    client: Client, pvc: PersistentVolumeClaim, kube_namespace: str
) -> None:
    obj = await client.get(dynamic(pvc.kind), "claim", kube_namespace)

    written = await write_status(client, obj, {"phase": "Pending", "capacity": {"storage": "1Gi"}})
    assert written is not None
    again = await write_status(client, written, {"phase": "Pending", "capacity": {"storage": "1Gi"}})

    assert written.body["status"] == {"phase": "Pending", "capacity": {"storage": "1Gi"}}
    assert again is None


async def test_null_and_empty_values_are_no_change(client: Client, kube_namespace: str, kube_audit: AuditLog) -> None:
    obj = decode(
        Namespace,
        {"metadata": {"name": kube_namespace, "resourceVersion": "1"}, "status": {"conditions": [], "other": None}},
    )

    with kube_audit.recording() as seen:
        nothing = await write_status(client, obj, NamespaceStatus())

    assert nothing is None
    assert our_writes(seen, kube_namespace) == []


async def test_a_status_of_the_wrong_type_or_of_an_unread_object_is_refused(
    client: Client, pvc: PersistentVolumeClaim, kube_namespace: str
) -> None:
    without = await make_owner(client, kube_namespace)
    obj = await client.get(dynamic(ConfigMap.KIND), "owner", kube_namespace)

    with pytest.raises(TypeError, match="got v1 ConfigMap"):
        await write_status(client, without, NamespaceStatus())
    with pytest.raises(TypeError, match=r"mapping .*got NamespaceStatus"):
        await write_status(client, obj, NamespaceStatus())
    with pytest.raises(TypeError, match="PersistentVolumeClaimStatus, got dict"):
        await write_status(client, pvc, {"phase": "Pending"})
    with pytest.raises(TypeError, match="PersistentVolumeClaimStatus, got NamespaceStatus"):
        await write_status(client, pvc, NamespaceStatus())
    with pytest.raises(ValueError, match="resourceVersion"):
        await write_status(client, decode(Namespace, {"metadata": {}}), NamespaceStatus(phase="Active"))
