"""Names of Services on the real node."""

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod

pytestmark = pytest.mark.real_node
ASK = """
import socket, urllib.request
assert urllib.request.urlopen("http://web").status == 200
assert socket.gethostbyname("kubernetes.default") == "10.96.0.1"
try:
    socket.gethostbyname("example.org")
except socket.gaierror:
    print("all answered")
"""


def test_pods_find_services_by_name_and_nothing_outside_of_the_cluster(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str, kube_images: ImageStore
) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    kube_images.add("dns-test/client:1", {"/ask.py": ASK}, base="python", command=["python", "/ask.py"])
    ready = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    serve = "echo served > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    create_pod(
        kube_cluster, kube_namespace, real_pod("web", "sh", "-c", serve, node=kube_real_node, readinessProbe=ready)
    )
    kube_cluster.kubectl("expose", "pod", "web", "--port=80", "--target-port=8080", "-n", kube_namespace)
    wait_for_pod(kube_cluster, kube_namespace, "web")

    # The endpoint reaches the node a moment after the pod is ready: a client that is too early tries again.
    client = real_pod("client", "python", "/ask.py", node=kube_real_node, image="dns-test/client:1")
    client["spec"]["restartPolicy"] = "OnFailure"
    create_pod(kube_cluster, kube_namespace, client)

    wait_for_pod(kube_cluster, kube_namespace, "client", "jsonpath={.status.phase}=Succeeded")
    assert kube_cluster.kubectl("logs", "client", "-n", kube_namespace) == "all answered\n"
