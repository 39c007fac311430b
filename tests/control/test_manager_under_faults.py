"""Managers that die after any write, and managers that take over with a cache that lags."""

from pathlib import Path

import pytest
from attrs import frozen

from gpuruntime.control import (
    Election,
    Manager,
    ManagerOptions,
    Result,
    RunInfo,
    Store,
    Watch,
    enqueue_object,
    enqueue_owner,
)
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.kube.client import Client
from gpuruntime.meta import FrozenDict, ObjectKey, ObjectMeta, set_controller
from gpuruntime.testing import AdminClient, AuditLog, ClusterAccess
from gpuruntime.testing.faults import DieAfterWrites, HoldEvents, LoseResponses
from tests.control.scenes import LONG_LEASE, eventually_on_server, managing, proxied

CHILDREN = 3


@frozen
class Fan:
    """Keeps three Secrets under generated names for every ConfigMap with fan=yes: nothing but its cache tells it which
    of them it has made already.
    """

    maps: Store[ConfigMap]
    secrets: Store[Secret]
    client: Client

    async def reconcile(self, key: ObjectKey, _context: RunInfo) -> Result:
        source = self.maps.get(key)
        if source is None or source.metadata.labels.get("fan") != "yes":
            return Result.done()
        made = {
            secret.metadata.labels["number"]
            for secret in self.secrets.list(key.namespace, labels="number").items
            if secret.metadata.owner_references[0].uid == source.metadata.uid
        }
        for number in sorted({str(number) for number in range(CHILDREN)} - made):
            labels = FrozenDict({"number": number})
            metadata = ObjectMeta(generate_name="child-", namespace=key.namespace, labels=labels)
            await self.client.create(Secret(set_controller(metadata, source), type="Opaque"))
        return Result.done()


def fan_manager(credentials: Credentials, namespace: str, election: Election | None = None) -> Manager:
    manager = Manager(credentials, ManagerOptions("fan", election=election, grace=5.0))
    maps = manager.cache.informer(ConfigMap, namespaces=[namespace])
    secrets = manager.cache.informer(Secret, namespaces=[namespace])
    reconciler = Fan(maps.store, secrets.store, manager.client)
    manager.add_controller(
        "fan", reconciler, [Watch(maps, enqueue_object()), Watch(secrets, enqueue_owner(ConfigMap.KIND))]
    )
    return manager


def create_map(admin: AdminClient, namespace: str, name: str) -> None:
    body = {"metadata": {"name": name, "labels": {"fan": "yes"}}}
    admin.create(f"/api/v1/namespaces/{namespace}/configmaps", body)


def children(admin: AdminClient, namespace: str) -> int:
    return len(admin.get(f"/api/v1/namespaces/{namespace}/secrets")["items"])


@pytest.mark.parametrize("writes", range(1, CHILDREN + 1))
async def test_a_manager_that_dies_after_any_write_is_followed_by_one_that_does_the_rest(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path, writes: int
) -> None:
    admin = kube_cluster.admin()
    create_map(admin, kube_namespace, "one")

    with kube_audit.recording() as seen:
        async with proxied(kube_cluster, tmp_path) as (proxy, credentials):
            death = proxy.inject(DieAfterWrites(writes), path=".*/secrets")
            async with managing(fan_manager(credentials, kube_namespace)):
                await death.triggered(1)
        async with managing(fan_manager(from_kubeconfig(kube_cluster.kubeconfig), kube_namespace)):
            await eventually_on_server(lambda: children(admin, kube_namespace) == CHILDREN)
            create_map(admin, kube_namespace, "two")
            await eventually_on_server(lambda: children(admin, kube_namespace) == 2 * CHILDREN)

    creations = [write for write in seen.writes(namespace=kube_namespace) if write.resource == "secrets"]
    assert len(creations) == 2 * CHILDREN


async def test_a_lost_answer_to_a_creation_leads_to_no_second_one(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> None:
    admin = kube_cluster.admin()

    with kube_audit.recording() as seen:
        async with proxied(kube_cluster, tmp_path) as (proxy, credentials):
            with proxy.inject(LoseResponses(times=2), method="POST", path=".*/secrets"):
                async with managing(fan_manager(credentials, kube_namespace)):
                    create_map(admin, kube_namespace, "one")
                    await eventually_on_server(lambda: children(admin, kube_namespace) == CHILDREN)
                    create_map(admin, kube_namespace, "two")
                    await eventually_on_server(lambda: children(admin, kube_namespace) == 2 * CHILDREN)

    creations = [write for write in seen.writes(namespace=kube_namespace) if write.resource == "secrets"]
    assert len(creations) == 2 * CHILDREN


async def test_a_standby_whose_cache_lags_repeats_no_write_when_it_takes_over(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_audit: AuditLog, tmp_path: Path
) -> None:
    admin = kube_cluster.admin()
    direct = from_kubeconfig(kube_cluster.kubeconfig)

    def election(identity: str) -> Election:
        return Election(kube_namespace, "fan", identity=identity, timing=LONG_LEASE)

    with kube_audit.recording() as seen:
        async with proxied(kube_cluster, tmp_path) as (proxy, credentials):
            leader = fan_manager(direct, kube_namespace, election("leader"))
            standby = fan_manager(credentials, kube_namespace, election("standby"))
            async with managing(leader):
                await eventually_on_server(lambda: leader.election is not None and leader.election.is_leader)
                async with managing(standby):
                    await standby.cache.synced(within=30)
                    with proxy.inject(HoldEvents(), watch=True):
                        create_map(admin, kube_namespace, "one")
                        await eventually_on_server(lambda: children(admin, kube_namespace) == CHILDREN)
                        leader.stop()
                        await eventually_on_server(lambda: standby.election is not None and standby.election.is_leader)
                        create_map(admin, kube_namespace, "two")
                        held = children(admin, kube_namespace)
                    await eventually_on_server(lambda: children(admin, kube_namespace) == 2 * CHILDREN)

    creations = [write for write in seen.writes(namespace=kube_namespace) if write.resource == "secrets"]
    assert held == CHILDREN
    assert len(creations) == 2 * CHILDREN
