"""The product's guard rails, enforced on the real node."""

import json
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from attrs import frozen

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.cluster.namespaces import create_namespace
from gpuruntime.testing.images import ImageStore
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod

pytestmark = pytest.mark.real_node
GUARD_RAILS: Final = Path(__file__).resolve().parents[3] / "manifests" / "guard-rails" / "network-policies.yaml"
GATEWAY_LABEL: Final = "runtime.lokiwager.io/unit-clients=allowed"
WITHIN_SECONDS: Final = 30.0


@frozen
class Network:
    """Pods that serve on port 8080, by the names of their namespaces."""

    cluster: ClusterAccess
    node: str

    def serve(self, namespace: str, name: str) -> str:
        """Start a pod with a probe, and return its address when it is ready."""
        ready = {"httpGet": {"port": 8080}, "periodSeconds": 1}
        command = ("sh", "-c", "echo served > /tmp/index.html; exec httpd -f -p 8080 -h /tmp")
        create_pod(self.cluster, namespace, real_pod(name, *command, node=self.node, readinessProbe=ready))
        return str(wait_for_pod(self.cluster, namespace, name)["status"]["podIP"])

    def answers(self, namespace: str, pod: str, command: str) -> bool:
        try:
            self.cluster.kubectl("exec", pod, "-n", namespace, "--", "sh", "-c", command)
        except subprocess.CalledProcessError:
            return False
        return True

    def becomes(self, namespace: str, pod: str, command: str, *, answered: bool) -> bool:
        """Whether a command in a pod gets an answer, or none, before the time is over: policies are not immediate."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while self.answers(namespace, pod, command) is not answered:
            if time.monotonic() > deadline:
                return False
        return True


@pytest.fixture
def namespaces(kube_cluster: ClusterAccess) -> Iterator[dict[str, str]]:
    """Namespaces for units, stock, a gateway and others, by what they are for."""
    made = {kind: f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("units", "stock", "gateway", "other")}
    for name in made.values():
        create_namespace(kube_cluster.admin(), name)
    yield made
    for name in made.values():
        kube_cluster.admin().delete(f"/api/v1/namespaces/{name}")


def test_units_are_reachable_from_gateways_alone_and_stock_is_silent(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_images: ImageStore, namespaces: dict[str, str]
) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    network = Network(kube_cluster, kube_real_node)
    units, stock, gateway, other = namespaces.values()
    kube_cluster.kubectl("label", "namespace", gateway, GATEWAY_LABEL)
    ask = f"echo | nc -w 1 {network.serve(units, 'first')} 8080"
    for namespace, name in ((units, "second"), (stock, "idle"), (gateway, "proxy"), (other, "stranger")):
        network.serve(namespace, name)
    clients = [(units, "second"), (stock, "idle"), (gateway, "proxy"), (other, "stranger")]
    resolve = "nslookup kubernetes.default.svc.cluster.local"
    assert [network.answers(*client, ask) for client in clients] == [True] * 4

    renamed = {"runtime-instance": units, "runtime-stock": stock}
    for policy in yaml.safe_load_all(GUARD_RAILS.read_text()):
        policy["metadata"]["namespace"] = renamed[policy["metadata"]["namespace"]]
        kube_cluster.kubectl("apply", "-f", "-", input_text=json.dumps(policy))

    assert network.becomes(units, "second", ask, answered=False)
    assert network.becomes(stock, "idle", ask, answered=False)
    assert network.becomes(stock, "idle", resolve, answered=False)
    assert network.becomes(other, "stranger", ask, answered=False)
    assert network.becomes(gateway, "proxy", ask, answered=True)
    assert network.becomes(units, "second", resolve, answered=True)
    wait_for_pod(kube_cluster, units, "first")

    kube_cluster.kubectl("delete", "networkpolicy", "units-are-behind-gateways", "-n", units)

    assert network.becomes(units, "second", ask, answered=True)
    assert network.becomes(other, "stranger", ask, answered=True)
