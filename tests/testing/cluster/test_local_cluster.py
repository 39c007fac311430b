"""Tests with dedicated clusters, which would disturb other tests on the shared one."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess, ClusterError, FakeNodes, LocalCluster, NodeShape, RefusedError
from gpuruntime.testing.processes.supervised import DirectoryInUseError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Without nodes; nothing relies on kwok."""
    with LocalCluster(tmp_path_factory.mktemp("cluster"), nodes=()) as started:
        yield started


def listening(server: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(server.rsplit(":", 1)[1]))) == 0


def test_a_cluster_lives_as_long_as_its_block_and_leaves_nothing_but_logs(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, nodes=(NodeShape("only", gpus=0),)) as cluster:
        server = cluster.access.server
        assert ClusterAccess.load(tmp_path) == cluster.access
        assert cluster.access.kubectl("get", "nodes", "-o", "name").split() == ["node/only"]
        with pytest.raises(DirectoryInUseError):
            LocalCluster(tmp_path).start()
        with pytest.raises(ClusterError):
            cluster.start()
        assert ClusterAccess.load(tmp_path) == cluster.access
        assert cluster.access.admin().get("/readyz") == "ok"

    assert not listening(server)
    assert ClusterAccess.load(tmp_path) is None
    assert not (tmp_path / "pki").exists()
    assert not (tmp_path / "etcd").exists()
    assert (tmp_path / "logs" / "kube-apiserver.log").exists()


def test_components_can_crash_and_restart_with_other_flags(cluster: LocalCluster) -> None:
    admin = cluster.access.admin()
    admin.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})

    cluster.signal_component("kube-apiserver", signal.SIGKILL)
    cluster.stop_component("kube-apiserver")
    with pytest.raises(OSError, match="refused"):
        admin.get("/readyz")
    cluster.start_component("kube-apiserver", {"feature-gates": "WatchList=false"})

    assert admin.get("/api/v1/namespaces/kept")["metadata"]["name"] == "kept"
    with pytest.raises(RefusedError, match="sendInitialEvents"):
        admin.get("/api/v1/namespaces?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")


def test_fake_nodes_can_be_added_to_an_existing_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.stop_component("kwok")
    access = cluster.access
    shapes = (NodeShape("played-1"), NodeShape("played-2", gpus=1))

    with FakeNodes(tmp_path, access.kubeconfig, shapes, access.binaries):
        names = access.kubectl("get", "nodes", "-o", "name").split()
        assert names == ["node/played-1", "node/played-2"]

    assert access.kubectl("get", "nodes", "-o", "name") == ""


def test_a_component_that_cannot_start_is_named_with_its_last_log_line(tmp_path: Path) -> None:
    broken = LocalCluster(tmp_path, apiserver_flags={"no-such-flag": "1"})

    with pytest.raises(ClusterError, match=r"kube-apiserver .*code 1.*--no-such-flag"):
        broken.start()

    with pytest.raises(ClusterError):
        _ = broken.access
