"""Clusters with OwnerReferencesPermissionEnforcement: an owner reference needs a permission for the owner."""

import asyncio
from pathlib import Path

import pytest

from gpuruntime.control.permissions.declarations import allow, allow_children
from gpuruntime.control.permissions.resolving import required_permissions
from gpuruntime.control.writing.writer import Writer
from gpuruntime.kube.auth.kubeconfig.contexts import from_kubeconfig
from gpuruntime.kube.builtin.core import ConfigMap, Secret
from gpuruntime.kube.client import connect
from gpuruntime.kube.errors import ForbiddenError
from gpuruntime.meta import ObjectMeta
from gpuruntime.testing import LocalCluster
from gpuruntime.testing.permissions import granted_account

PLUGINS = {"enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement"}
PLACE = ("default",)


async def make_child(kubeconfig: Path) -> str:
    async with connect(from_kubeconfig(kubeconfig)) as client:
        parent = await client.get(ConfigMap, "parent", "default")
        child = Secret(ObjectMeta(name="child", namespace="default"), type="Opaque")
        outcome = await Writer(client, field_manager="tests.example.org").ensure(child, parent, live=None)
        return outcome.result


def test_an_owner_that_is_declared_may_own_and_one_that_is_not_may_not(tmp_path: Path) -> None:
    reads = allow(ConfigMap, "get", namespaces=PLACE)
    declared = required_permissions([], [reads, allow_children(Secret, of=ConfigMap, namespaces=PLACE)])
    orphans = required_permissions([], [reads, allow_children(Secret, namespaces=PLACE)])
    with LocalCluster(tmp_path / "cluster", nodes=(), apiserver_flags=PLUGINS) as cluster:
        access = cluster.access
        access.admin().create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "parent"}})

        with (
            granted_account(access, orphans, namespace="default", directory=tmp_path) as account,
            pytest.raises(ForbiddenError, match="cannot set blockOwnerDeletion"),
        ):
            asyncio.run(make_child(account.kubeconfig))
        with granted_account(access, declared, namespace="default", directory=tmp_path) as account:
            assert asyncio.run(make_child(account.kubeconfig)) == "created"
