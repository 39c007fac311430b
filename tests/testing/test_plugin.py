import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kubernetes import client, config

from gpuruntime.testing import AuditLog, ClusterAccess, NodeShape, RefusedError
from gpuruntime.testing.plugin import AccountFactory

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
READ_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}


def core(kubeconfig: Path) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


def test_an_account_without_rules_has_no_permissions(kube_account: AccountFactory, kube_namespace: str) -> None:
    account = kube_account()

    with pytest.raises(client.ApiException) as refusal:
        core(account.kubeconfig).list_namespaced_pod(kube_namespace)

    assert refusal.value.status == 403
    assert account.username in str(refusal.value.body)


def test_an_account_has_exactly_the_permissions_of_its_rules(kube_account: AccountFactory, kube_namespace: str) -> None:
    api = core(kube_account(rules=[READ_PODS], cluster_rules=[READ_NODES]).kubeconfig)

    assert api.list_namespaced_pod(kube_namespace).items == []
    assert len(api.list_node().items) >= 4
    with pytest.raises(client.ApiException, match="403"):
        api.list_namespaced_pod("default")
    with pytest.raises(client.ApiException, match="403"):
        api.list_namespaced_secret(kube_namespace)


def test_an_invalid_token_is_rejected(kube_cluster: ClusterAccess, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kube_cluster.kubectl("config", "view", "--raw")
    kubeconfig.write_text(str(kube_cluster.kubeconfig_for("not-a-token")))

    with pytest.raises(client.ApiException, match="401"):
        core(kubeconfig).list_node()


def test_a_node_exists_for_the_test_that_added_it(
    kube_cluster: ClusterAccess, kube_nodes: Callable[[NodeShape], None]
) -> None:
    kube_nodes(NodeShape("extra-node", gpus=2, product="B200", labels={"pool": "extra"}))

    node = kube_cluster.admin().get("/api/v1/nodes/extra-node")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert node["metadata"]["labels"]["pool"] == "extra"


def test_a_pod_without_gpus_is_kept_off_a_node_that_another_test_added(
    kube_cluster: ClusterAccess, kube_nodes: Callable[[NodeShape], None], kube_namespace: str
) -> None:
    kube_nodes(NodeShape("passing-node", product="B300"))
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": "passing-node"},
        "containers": [{"name": "x", "image": "x"}],
    }

    kube_cluster.admin().create(
        f"/api/v1/namespaces/{kube_namespace}/pods", {"metadata": {"name": "other"}, "spec": spec}
    )

    unschedulable = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable"
    kube_cluster.kubectl("wait", "pod/other", "-n", kube_namespace, f"--for={unschedulable}", "--timeout=60s")


def test_a_recording_holds_every_write_inside_it_and_none_outside(
    kube_cluster: ClusterAccess, kube_audit: AuditLog, kube_namespace: str
) -> None:
    admin = kube_cluster.admin()
    maps = f"/api/v1/namespaces/{kube_namespace}/configmaps"
    admin.create(maps, {"metadata": {"name": "before"}})

    with kube_audit.recording() as seen:
        admin.create(maps, {"metadata": {"name": "inside"}})
        admin.merge(f"{maps}/inside", {"data": {"a": "b"}})
        admin.get(f"{maps}/inside")
        with pytest.raises(RefusedError):
            admin.create(maps, {"metadata": {"name": "inside"}})
    admin.delete(f"{maps}/inside")

    writes = seen.writes(namespace=kube_namespace, user="admin")
    assert [(write.verb, write.resource, write.name) for write in writes] == [
        ("create", "configmaps", "inside"),
        ("patch", "configmaps", "inside"),
    ]


@pytest.mark.parametrize(("value", "outcome"), [("", "1 skipped"), ("required", "1 error")])
def test_a_test_of_the_real_node_is_skipped_where_it_cannot_run_and_fails_where_it_is_required(
    tmp_path: Path, value: str, outcome: str
) -> None:
    (tmp_path / "conftest.py").write_text(
        "from gpuruntime.testing import RealNodeUnavailableError, plugin\n"
        "def refuse():\n    raise RealNodeUnavailableError('no such machine')\n"
        "plugin.require_real_node = refuse\n"
    )
    (tmp_path / "test_one.py").write_text("def test_one(kube_real_node):\n    pass\n")

    command = [sys.executable, "-m", "pytest", "-rsE", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "GPURUNTIME_REAL_NODE": value}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert outcome in done.stdout
    assert "no such machine" in done.stdout


def test_the_plugin_loads_without_the_extra_and_starts_nothing() -> None:
    script = "import sys, gpuruntime.testing.plugin as p; sys.exit('cryptography' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
