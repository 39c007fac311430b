"""An operator with the permissions that follow from its declarations, and none besides, on a real API server."""

import asyncio
from pathlib import Path

from gpuruntime.control.manager import Manager, ManagerOptions
from gpuruntime.control.permissions.declarations import Declaration, allow, allow_events
from gpuruntime.control.permissions.offline_credentials import OFFLINE_CREDENTIALS
from gpuruntime.kube.auth.credentials import Credentials
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.kube.forms import metadata_only
from gpuruntime.testing import AdminClient, AuditLog, ClusterAccess
from gpuruntime.testing.permissions import Usage, granted_account, usage
from tests.control.permissions.widget_operator import DECLARED, Widget, build, install_widgets, phase_of
from tests.control.scenes import eventually, eventually_on_server, managing


async def resize(admin: AdminClient, namespace: str, size: int) -> None:
    await asyncio.to_thread(admin.merge, Widget.KIND.path(namespace, "one"), {"spec": {"size": size}})
    await eventually_on_server(lambda: phase_of(admin, namespace, "one") == f"size {size}")


async def operate(
    cluster: ClusterAccess, audit: AuditLog, namespace: str, directory: Path, declared: tuple[Declaration, ...]
) -> Usage:
    """Run the operator through the life of a widget; what it did beside what it may do."""
    install_widgets(cluster)
    admin, permissions = cluster.admin(), build(OFFLINE_CREDENTIALS, namespace, declared).permissions
    with granted_account(cluster, permissions, namespace=namespace, directory=directory) as account:
        with audit.recording() as seen:
            async with managing(build(from_kubeconfig(account.kubeconfig), namespace)):
                body = {"apiVersion": Widget.KIND.api_version, "kind": "Widget", "metadata": {"name": "one"}}
                await asyncio.to_thread(admin.create, Widget.KIND.path(namespace), {**body, "spec": {"size": 1}})
                await eventually_on_server(lambda: phase_of(admin, namespace, "one") == "size 1")
                await resize(admin, namespace, 2)
                await resize(admin, namespace, 0)
        return usage(permissions, seen.requests, user=account.username)


async def test_an_operator_uses_exactly_the_permissions_of_its_declarations(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, kube_namespace: str, tmp_path: Path
) -> None:
    found = await operate(kube_cluster, kube_audit, kube_namespace, tmp_path, DECLARED)

    assert found.is_exact, found
    assert {f"{permission.verb} {permission.resource}" for permission in found.excused} <= {
        "get configmaps",
        "get widgets",
        "patch events",
        "update widgets/finalizers",
    }


async def test_unused_permissions_are_reported(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, kube_namespace: str, tmp_path: Path
) -> None:
    declared = (*DECLARED, allow(Secret, "get", "list", names=("token",), namespaces=(kube_namespace,)))

    found = await operate(kube_cluster, kube_audit, kube_namespace, tmp_path, declared)

    assert not found.missing
    assert [str(permission) for permission in found.unused] == [
        f"get secrets 'token' in {kube_namespace}",
        f"list secrets 'token' in {kube_namespace}",
    ]
    assert "unused: get secrets 'token'" in str(found)


async def test_missing_permissions_are_reported(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, kube_namespace: str, tmp_path: Path
) -> None:
    silent = tuple(declaration for declaration in DECLARED if declaration != allow_events(Widget))

    found = await operate(kube_cluster, kube_audit, kube_namespace, tmp_path, silent)

    assert not found.unused
    assert [str(permission) for permission in found.missing] == [f"create events.events.k8s.io in {kube_namespace}"]
    assert str(found).startswith("missing: create events")


async def test_one_object_may_be_watched_by_who_may_see_no_other_and_nodes_by_who_may_see_them_everywhere(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, kube_namespace: str, tmp_path: Path
) -> None:
    admin = kube_cluster.admin()
    admin.create(f"/api/v1/namespaces/{kube_namespace}/configmaps", {"metadata": {"name": "settings"}})

    def watching(credentials: Credentials) -> Manager:
        manager = Manager(credentials, ManagerOptions("watcher"))
        manager.cache.informer(metadata_only(Node.KIND))
        manager.cache.informer(ConfigMap, namespaces=[kube_namespace], fields="metadata.name=settings")
        return manager

    permissions = watching(OFFLINE_CREDENTIALS).permissions
    with granted_account(kube_cluster, permissions, namespace=kube_namespace, directory=tmp_path) as account:
        manager = watching(from_kubeconfig(account.kubeconfig))
        with kube_audit.recording() as seen:
            async with managing(manager):
                await manager.cache.synced(within=60)
                # A list and a watch of each kind are answered: a watch that has not begun would not be in the log.
                await eventually(lambda: manager._transport.counts.get(("200", "GET"), 0) >= 4)

    found = usage(permissions, seen.requests, user=account.username)
    assert found.is_exact, found
    assert [len(informer.store) > 0 for informer in manager.cache.informers] == [True, True]
    assert f"watch configmaps 'settings' in {kube_namespace}" in {str(permission) for permission in permissions}
