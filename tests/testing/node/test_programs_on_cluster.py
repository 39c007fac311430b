"""Programs of the node that stop or end."""

import signal
from pathlib import Path

import pytest

from gpuruntime.testing import ClusterAccess, NodeError, RealNode
from tests.testing.node.pods import OWN_TAINTS

pytestmark = [pytest.mark.real_node, pytest.mark.usefixtures("kube_real_node")]


def test_a_program_that_is_killed_runs_again(kube_cluster: ClusterAccess, kube_namespace: str, tmp_path: Path) -> None:
    with RealNode(kube_cluster, tmp_path, name=f"real-{kube_namespace}", taints=OWN_TAINTS) as node:
        before = started(kube_cluster, node.name)

        node.signal("kubelet", signal.SIGKILL)

        while started(kube_cluster, node.name) == before:
            pass
        with pytest.raises(NodeError, match="no-such-program"):
            node.signal("no-such-program", signal.SIGKILL)


def started(cluster: ClusterAccess, node: str) -> list[str]:
    """The Events by which kubelets say that they started."""
    events = cluster.admin().get(f"/api/v1/events?fieldSelector=involvedObject.name={node},reason=Starting")["items"]
    return [event["metadata"]["name"] for event in events if event["source"].get("component") == "kubelet"]
