"""A real node leaves nothing on the machine, however it ends."""

import fcntl
import os
import select
import signal
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess, LocalCluster, RealNode
from gpuruntime.testing.images import ImageStore
from tests.testing.node.machine import NOTHING, descendants, processes, settings, traces
from tests.testing.node.node_owners import CLUSTER, NODE, Owner, owner_of_a_node
from tests.testing.node.pods import BUSYBOX, OWN_TAINTS, create_pod, real_pod, wait_for_pod

pytestmark = [pytest.mark.real_node, pytest.mark.usefixtures("kube_real_node")]


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """The directory for the owner's temporary files, where whatever it leaves is seen."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL], ids=["end", "SIGTERM", "SIGKILL"])
def test_nothing_is_left_of_a_node_after_the_end_of_its_owner(
    kube_cluster: ClusterAccess, kube_namespace: str, temporary: Path, number: signal.Signals | None
) -> None:
    before, name = settings(), f"real-{kube_namespace}"
    with owner_of_a_node(temporary, NODE, str(kube_cluster.kubeconfig.parent), name) as owner:
        create_pod(kube_cluster, kube_namespace, real_pod("web", "sleep", "600", node=name))
        wait_for_pod(kube_cluster, kube_namespace, "web")
        running = descendants(owner.init)
        assert {"kubelet", "containerd", "kube-proxy", "sleep"} <= {process.name for process in running}
        assert traces(owner.number, owner.directory) != NOTHING

        with (owner.directory / "lock").open() as lock:
            end(owner, number)
            fcntl.flock(lock, fcntl.LOCK_EX)  # free when the supervisor and the keeper have ended

    assert running.isdisjoint(processes())
    assert traces(owner.number, owner.directory) == NOTHING
    assert settings() == before
    assert list(temporary.iterdir()) == []


def test_nothing_is_left_of_a_cluster_with_a_node_whose_owner_is_killed(temporary: Path) -> None:
    with owner_of_a_node(temporary, CLUSTER) as owner:
        running = descendants(owner.init)
        [cluster] = [path for path in temporary.iterdir() if path != owner.directory]

        with (owner.directory / "lock").open() as node_lock, (cluster / "lock").open() as cluster_lock:
            owner.process.kill()
            for lock in (node_lock, cluster_lock):
                fcntl.flock(lock, fcntl.LOCK_EX)

    assert running.isdisjoint(processes())
    assert traces(owner.number, owner.directory) == NOTHING
    assert list(temporary.iterdir()) == []


def test_the_next_node_removes_what_a_node_left_whose_keeper_was_killed(
    kube_cluster: ClusterAccess, kube_namespace: str, temporary: Path, tmp_path: Path
) -> None:
    name = f"real-{kube_namespace}"
    with owner_of_a_node(temporary, NODE, str(kube_cluster.kubeconfig.parent), name) as owner:
        running, init = descendants(owner.init), os.pidfd_open(owner.init)
        for process in (owner.process.pid, owner.supervisor, owner.keeper):
            os.kill(process, signal.SIGKILL)
        select.select([init], [], [])
        os.close(init)
    assert running.isdisjoint(processes())
    # Empty cgroups are left now, unless another node of this machine has started or stopped meanwhile.

    with RealNode(kube_cluster, tmp_path / "next", name=name, taints=OWN_TAINTS):
        pass

    assert traces(owner.number, owner.directory) == NOTHING


def test_two_clusters_with_a_real_node_each_run_side_by_side(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_images: ImageStore, kube_namespace: str
) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    with LocalCluster(nodes=(), real_nodes=1) as other:
        [node] = other.real_nodes
        node.images.add(BUSYBOX, base="busybox")
        pods = [(kube_cluster, kube_namespace, kube_real_node), (other.access, "default", node.name)]

        for cluster, namespace, name in pods:
            create_pod(cluster, namespace, real_pod("beside", "sleep", "600", node=name))

        addresses = {wait_for_pod(one, namespace, "beside")["status"]["podIP"] for one, namespace, _ in pods}
    assert len(addresses) == 2


def end(owner: Owner, number: signal.Signals | None) -> None:
    assert owner.process.stdin is not None
    if number is None:
        owner.process.stdin.close()
    else:
        owner.process.send_signal(number)
    owner.process.wait()
