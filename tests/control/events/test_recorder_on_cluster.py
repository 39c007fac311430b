"""The recorder against a real API server, observed with kubectl."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuruntime.control.events.recorder import Recorder
from gpuruntime.kube import Client, Form, MergePatch, connect, dynamic, from_kubeconfig
from gpuruntime.kube.builtin.events import Event, ObjectReference
from gpuruntime.meta import DynamicObject, ResourceKind
from gpuruntime.testing import AuditLog, ClusterAccess
from gpuruntime.testing.plugin import AccountFactory

CONFIG_MAPS = ResourceKind("", "v1", "ConfigMap", "configmaps", namespaced=True)
EVENTS_V1 = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
CORE_EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["patch"]}


class Observed:
    """A client whose responses can be awaited."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answers: asyncio.Queue[None] = asyncio.Queue()

    async def create(self, obj: Event) -> Event:
        try:
            return await self._client.create(obj)
        finally:
            self._answers.put_nowait(None)

    async def patch(self, form: Form[Any], name: str, namespace: str, patch: MergePatch) -> Any:
        try:
            return await self._client.patch(form, name, namespace, patch)
        finally:
            self._answers.put_nowait(None)

    async def answers(self, number: int) -> None:
        """Wait for more responses. The recorder has processed them by then, because it does not await in between."""
        for _ in range(number):
            await self._answers.get()


@asynccontextmanager
async def recording(kubeconfig: Path) -> AsyncIterator[tuple[Recorder, Observed]]:
    """A running recorder with the permissions of a kubeconfig; pending events are sent at the end."""
    async with connect(from_kubeconfig(kubeconfig), field_manager="tester") as client:
        observed = Observed(client)
        recorder = Recorder(observed, controller="example.org/tester", instance="tester-0")
        async with asyncio.TaskGroup() as group:
            task = group.create_task(recorder.run())
            yield recorder, observed
            task.cancel()


async def config_map(cluster: ClusterAccess, namespace: str, name: str) -> DynamicObject:
    """A new object to record events about."""
    cluster.kubectl("create", "configmap", name, "-n", namespace)
    async with connect(from_kubeconfig(cluster.kubeconfig)) as client:
        return await client.get(dynamic(CONFIG_MAPS), name, namespace)


async def test_kubectl_shows_a_recorded_event(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    about = await config_map(kube_cluster, kube_namespace, "web")
    beside = await config_map(kube_cluster, kube_namespace, "other")

    async with recording(kube_cluster.kubeconfig) as (recorder, observed):
        recorder.record(about, "Warning", "NoSpace", "Schedule", "no node has room", related=beside)
        await observed.answers(1)

    described = kube_cluster.kubectl("describe", "configmap", "web", "-n", kube_namespace)
    listed = kube_cluster.kubectl("events", "--for=configmap/web", "-n", kube_namespace)
    assert "no node has room" in described
    assert "example.org/tester" in described
    assert listed.splitlines()[1].split()[1:] == ["Warning", "NoSpace", "ConfigMap/web", "no", "node", "has", "room"]


async def test_a_series_shows_its_count_and_the_newest_note(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory, kube_audit: AuditLog
) -> None:
    about = await config_map(kube_cluster, kube_namespace, "web")
    account = kube_account(rules=[EVENTS_V1, CORE_EVENTS])

    with kube_audit.recording() as seen:
        async with recording(account.kubeconfig) as (recorder, observed):
            for number in range(1, 4):
                recorder.record(about, "Normal", "Waiting", "Wait", f"waited {number} times")
                await observed.answers(1 if number < 3 else 0)

    (listed,) = kube_cluster.kubectl("events", "-n", kube_namespace).splitlines()[1:]
    assert "(x3 over " in listed
    assert listed.endswith("waited 3 times")
    assert [write.verb for write in seen.writes(user=account.username)] == ["create", "patch", "patch"]
    assert (recorder.counters.sent, recorder.counters.patched, recorder.counters.failed) == (1, 2, 0)


async def test_without_permission_on_core_events_the_count_is_updated_and_the_note_is_not(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory
) -> None:
    about = await config_map(kube_cluster, kube_namespace, "web")
    account = kube_account(rules=[EVENTS_V1])

    async with recording(account.kubeconfig) as (recorder, observed):
        recorder.record(about, "Normal", "Waiting", "Wait", "first")
        await observed.answers(1)
        recorder.record(about, "Normal", "Waiting", "Wait", "second")
        await observed.answers(2)

    (listed,) = kube_cluster.kubectl("events", "-n", kube_namespace).splitlines()[1:]
    assert "(x2 over " in listed
    assert listed.endswith("first")
    assert recorder.counters.failed == 0


async def test_a_forbidden_account_is_logged_once_and_the_recorder_continues(
    kube_cluster: ClusterAccess,
    kube_namespace: str,
    kube_account: AccountFactory,
    kube_audit: AuditLog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    account = kube_account(rules=[EVENTS_V1])
    forbidden = ObjectReference(api_version="v1", kind="Pod", namespace="kube-system", name="theirs")
    allowed = await config_map(kube_cluster, kube_namespace, "ours")

    with kube_audit.recording() as seen, caplog.at_level(logging.WARNING, "gpuruntime"):
        async with recording(account.kubeconfig) as (recorder, observed):
            for _ in range(3):
                recorder.record(forbidden, "Normal", "R", "A", "not allowed")
            await observed.answers(1)
            recorder.record(forbidden, "Normal", "Other", "A", "not allowed either")
            recorder.record(allowed, "Normal", "R", "A", "allowed")
            await observed.answers(2)

    ours = [(request.namespace, request.code) for request in seen.requests if request.user == account.username]
    # Permissions may be granted late, so each write is retried: here at once, because the recorder stops.
    assert sorted(ours) == sorted([("kube-system", 403)] * 4 + [(kube_namespace, 201)])
    assert (recorder.counters.sent, recorder.counters.failed) == (1, 2)
    assert [record.message for record in caplog.records] == ["event refused, not retried"]


async def test_the_server_accepts_events_at_all_limits_about_objects_of_any_name(
    kube_cluster: ClusterAccess, kube_namespace: str
) -> None:
    api = "rbac.authorization.k8s.io/v1"
    objects = [
        ObjectReference(api_version=api, kind="Role", namespace=kube_namespace, name="system:Node:_9"),
        ObjectReference(api_version="v1", kind="Pod", namespace=kube_namespace, name="a." * 126 + "a"),
        ObjectReference(api_version="v1", kind="Node", name=f"node-of-{kube_namespace}"),
    ]

    async with recording(kube_cluster.kubeconfig) as (recorder, observed):
        for about in objects:
            recorder.record(about, "Normal", "é" * 500, "A" * 500, "日本\ud800" * 1000, related=objects[0])
        await observed.answers(3)

    home = kube_cluster.kubectl("events", "-n", kube_namespace, "--no-headers").splitlines()
    cluster_scoped = kube_cluster.kubectl("events", "-n", "default", "--for", f"node/node-of-{kube_namespace}")
    assert (recorder.counters.sent, recorder.counters.failed) == (3, 0)
    assert len(home) == 2
    assert f"Node/node-of-{kube_namespace}" in cluster_scoped


async def test_a_deleted_event_is_created_again(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    about = await config_map(kube_cluster, kube_namespace, "web")

    async with recording(kube_cluster.kubeconfig) as (recorder, observed):
        recorder.record(about, "Normal", "Waiting", "Wait", "same")
        await observed.answers(1)
        kube_cluster.kubectl("delete", "events", "--all", "-n", kube_namespace)
        recorder.record(about, "Normal", "Waiting", "Wait", "same")
        await observed.answers(2)

    (listed,) = kube_cluster.kubectl("events", "-n", kube_namespace).splitlines()[1:]
    assert "(x2 over " in listed
    assert (recorder.counters.sent, recorder.counters.patched) == (2, 0)
