"""A controller waits for what it watches and reads, and for nothing that another one waits for."""

import asyncio

import pytest

from gpuruntime.control.controllers.reconcile import Result, RunInfo
from gpuruntime.control.controllers.sources import Watch
from gpuruntime.control.controllers.triggers import enqueue_object
from gpuruntime.control.manager import Election, Manager, ManagerOptions
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.cluster.accounts import Account
from gpuruntime.testing.plugin import AccountFactory
from tests.control.scenes import LONG_LEASE, eventually, managing

MAPS_ONLY = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
]
SECRETS = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "secrets"},
    "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}],
}


class Noting:
    def __init__(self) -> None:
        self.ran = asyncio.Event()

    async def reconcile(self, _key: ObjectKey, _context: RunInfo) -> Result:
        self.ran.set()
        return Result.done()


def waiting_manager(access: ClusterAccess, account: Account, namespace: str, *, elected: bool) -> Manager:
    """A manager that may see maps but no secrets, in a namespace that has one of each."""
    admin = access.admin()
    admin.create(f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "page"}})
    admin.create(f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "key"}})
    election = Election(namespace, "waiting", timing=LONG_LEASE) if elected else None
    return Manager(from_kubeconfig(account.kubeconfig), ManagerOptions("waiting", election=election))


def allow_secrets(access: ClusterAccess, account: Account, namespace: str) -> None:
    access.admin().create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles", SECRETS)
    access.kubectl(
        *("create", "rolebinding", "secrets", "--role=secrets", f"--user={account.username}", "-n", namespace)
    )


@pytest.mark.parametrize("elected", [False, True], ids=["alone", "elected"])
async def test_a_controller_works_while_the_kind_of_another_is_forbidden(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory, elected: bool
) -> None:
    account = kube_account(rules=MAPS_ONLY)
    manager = waiting_manager(kube_cluster, account, kube_namespace, elected=elected)
    maps = manager.cache.informer(ConfigMap, namespaces=[kube_namespace])
    secrets = manager.cache.informer(Secret, namespaces=[kube_namespace])
    of_maps, of_secrets = Noting(), Noting()
    manager.add_controller("maps", of_maps, [Watch(maps, enqueue_object())])
    manager.add_controller("secrets", of_secrets, [Watch(secrets, enqueue_object())])

    async with managing(manager):
        await eventually(lambda: bool(secrets.troubles))
        await of_maps.ran.wait()
        assert not of_secrets.ran.is_set()

        allow_secrets(kube_cluster, account, kube_namespace)
        await of_secrets.ran.wait()


@pytest.mark.parametrize("elected", [False, True], ids=["alone", "elected"])
async def test_a_controller_and_work_wait_for_what_they_are_said_to_read(
    kube_cluster: ClusterAccess, kube_namespace: str, kube_account: AccountFactory, elected: bool
) -> None:
    account = kube_account(rules=MAPS_ONLY)
    manager = waiting_manager(kube_cluster, account, kube_namespace, elected=elected)
    maps = manager.cache.informer(ConfigMap, namespaces=[kube_namespace])
    secrets = manager.cache.informer(Secret, namespaces=[kube_namespace])
    reader, narrow, wide = Noting(), asyncio.Event(), asyncio.Event()

    async def read_maps() -> None:
        narrow.set()
        await asyncio.get_running_loop().create_future()

    async def read_all() -> None:
        wide.set()
        await asyncio.get_running_loop().create_future()

    manager.add_controller("reader", reader, [Watch(maps, enqueue_object())], reads=[secrets])
    manager.add(read_maps, "work that reads maps", reads=[maps])
    manager.add(read_all, "work that says nothing about it")

    async with managing(manager):
        await eventually(lambda: bool(secrets.troubles))
        await narrow.wait()
        assert not reader.ran.is_set()
        assert not wide.is_set()

        allow_secrets(kube_cluster, account, kube_namespace)
        await reader.ran.wait()
        await wide.wait()


async def test_a_run_takes_no_store_that_is_not_filled_for_an_empty_one(
    kube_cluster: ClusterAccess,
    kube_namespace: str,
    kube_account: AccountFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    account = kube_account(rules=MAPS_ONLY)
    manager = waiting_manager(kube_cluster, account, kube_namespace, elected=False)
    maps = manager.cache.informer(ConfigMap, namespaces=[kube_namespace])
    secrets = manager.cache.informer(Secret, namespaces=[kube_namespace])
    seen: list[int] = []

    class Counting:
        async def reconcile(self, _key: ObjectKey, _context: RunInfo) -> Result:
            seen.append(len(secrets.store.list().items))
            return Result.done()

    controller = manager.add_controller("counting", Counting(), [Watch(maps, enqueue_object())])

    async with managing(manager):
        await eventually(lambda: controller.counters.errors > 0)
        allow_secrets(kube_cluster, account, kube_namespace)
        await eventually(lambda: controller.counters.results["success"] > 0)

    assert set(seen) == {1}
    assert "reads=[...]" in str([vars(record).get("error") for record in caplog.records])
