"""What only a node that runs containers can show."""

import socket
import subprocess
from collections.abc import Iterator

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.node.addresses import Addresses
from gpuruntime.testing.node.cluster_objects import ClusterObjects
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod

pytestmark = pytest.mark.real_node
NO_NODE = Addresses(255)  # real nodes have numbers up to 250
SERVE = "mkdir /www; echo served > /www/index.html; exec httpd -f -p 8080 -h /www"


@pytest.fixture(scope="module", autouse=True)
def busybox(kube_images: ImageStore) -> None:
    kube_images.add(BUSYBOX, base="busybox")


def test_a_pod_without_a_toleration_stays_off_the_real_node(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    pod = real_pod("refused", "sleep", "60", node=kube_real_node)
    del pod["spec"]["tolerations"]

    create_pod(kube_cluster, kube_namespace, pod)

    unschedulable = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}=Unschedulable"
    seen = wait_for_pod(kube_cluster, kube_namespace, "refused", unschedulable)
    assert "nodeName" not in seen["spec"]


def test_a_pod_runs_and_answers_logs_exec_and_port_forward(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    create_pod(kube_cluster, kube_namespace, real_pod("web", "sh", "-c", f"echo started; {SERVE}", node=kube_real_node))

    pod = wait_for_pod(kube_cluster, kube_namespace, "web")

    assert pod["spec"]["nodeName"] == kube_real_node
    assert kube_cluster.kubectl("logs", "web", "-n", kube_namespace) == "started\n"
    assert kube_cluster.kubectl("exec", "web", "-n", kube_namespace, "--", "hostname") == "web\n"
    assert "served" in get_through_port_forward(kube_cluster, kube_namespace, "web")


def test_the_exit_code_of_a_crash_loop_is_in_the_status(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    create_pod(kube_cluster, kube_namespace, real_pod("crash", "sh", "-c", "exit 7", node=kube_real_node))

    restarted = "jsonpath={.status.containerStatuses[0].restartCount}=2"
    pod = wait_for_pod(kube_cluster, kube_namespace, "crash", restarted)

    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 7


def test_a_container_that_takes_more_memory_than_its_limit_is_killed(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    hungry = "x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 60"
    pod = real_pod("hungry", "sh", "-c", hungry, node=kube_real_node, resources={"limits": {"memory": "32Mi"}})
    pod["spec"]["restartPolicy"] = "Never"

    create_pod(kube_cluster, kube_namespace, pod)

    seen = wait_for_pod(kube_cluster, kube_namespace, "hungry", "jsonpath={.status.phase}=Failed")
    assert seen["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"


def test_pods_reach_a_service_and_the_api_server(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    ready = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    create_pod(
        kube_cluster, kube_namespace, real_pod("web", "sh", "-c", SERVE, node=kube_real_node, readinessProbe=ready)
    )
    service = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    address = kube_cluster.admin().create(f"/api/v1/namespaces/{kube_namespace}/services", service)["spec"]["clusterIP"]
    wait_for_pod(kube_cluster, kube_namespace, "web")

    refused = "! nc 10.96.255.254 1 < /dev/null"  # no Service has this address
    served = f"until wget -q -O - http://{address} | grep served; do sleep 0.1; done"
    asking = f"{served} && nc 10.96.0.1 443 < /dev/null && {refused}"
    client = real_pod("client", "sh", "-x", "-c", asking, node=kube_real_node)
    client["spec"]["restartPolicy"] = "Never"
    create_pod(kube_cluster, kube_namespace, client)

    pod = wait_for_pod(
        kube_cluster, kube_namespace, "client", "jsonpath={.status.containerStatuses[0].state.terminated}"
    )
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


@pytest.fixture
def lost_endpoint(kube_cluster: ClusterAccess, kube_namespace: str) -> Iterator[None]:
    """An endpoint of the API server as a killed node leaves it: nothing answers there."""
    objects = ClusterObjects(kube_cluster.admin(), f"lost-{kube_namespace}", NO_NODE)
    objects.create()
    yield
    objects.delete()


@pytest.mark.usefixtures("lost_endpoint")
def test_pods_reach_the_api_server_although_a_killed_node_left_its_endpoint(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    attempts = " && ".join(["nc -w 20 10.96.0.1 443 < /dev/null"] * 10)
    client = real_pod("client", "sh", "-c", attempts, node=kube_real_node)
    client["spec"]["restartPolicy"] = "Never"

    create_pod(kube_cluster, kube_namespace, client)

    wait_for_pod(kube_cluster, kube_namespace, "client", "jsonpath={.status.phase}=Succeeded")


def test_an_image_that_is_not_in_the_store_is_refused(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    create_pod(kube_cluster, kube_namespace, real_pod("lost", "sleep", "60", node=kube_real_node, image="no/such:1"))

    refused = "jsonpath={.status.containerStatuses[0].state.waiting.reason}=ErrImagePull"
    pod = wait_for_pod(kube_cluster, kube_namespace, "lost", refused)

    assert "not found" in pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"]


def test_the_real_node_offers_gpus_that_a_pod_can_request(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str
) -> None:
    request = {"limits": {"nvidia.com/gpu": "1"}}
    create_pod(kube_cluster, kube_namespace, real_pod("gpu", "sleep", "60", node=kube_real_node, resources=request))

    assert wait_for_pod(kube_cluster, kube_namespace, "gpu")["status"]["phase"] == "Running"


def get_through_port_forward(cluster: ClusterAccess, namespace: str, pod: str) -> str:
    command = [str(cluster.binaries / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "-n", namespace]
    forward = subprocess.Popen(
        [*command, "port-forward", f"pod/{pod}", ":8080", "--address=127.0.0.1"], stdout=subprocess.PIPE, text=True
    )
    with forward:
        assert forward.stdout is not None
        port = int(forward.stdout.readline().split("->")[0].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(4096), b"")).decode()
        forward.terminate()
    return answer
