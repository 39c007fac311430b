import base64
import json
import os
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
from kubernetes import client, config

from gpuruntime.testing import ClusterAccess


def test_the_official_client_connects_with_verified_tls(kube_cluster: ClusterAccess) -> None:
    with config.new_client_from_config(str(kube_cluster.kubeconfig)) as api:
        version = client.VersionApi(api).get_code()

        assert api.configuration.verify_ssl
        assert version.git_version.startswith("v1.")
        assert (version.major, version.minor) >= ("1", "36")


def test_a_client_without_the_certificate_authority_rejects_the_server(kube_cluster: ClusterAccess) -> None:
    default_context = ssl.create_default_context()

    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(kube_cluster.server, context=default_context)  # noqa: S310 - an https address


def test_kubectl_and_server_have_the_same_stamped_version(kube_cluster: ClusterAccess) -> None:
    versions = json.loads(kube_cluster.kubectl("version", "--output=json"))

    assert versions["clientVersion"]["gitVersion"] == versions["serverVersion"]["gitVersion"]
    assert versions["serverVersion"]["gitVersion"] != "v0.0.0-master+$Format:%H$"


def test_the_default_nodes_are_ready_and_offer_gpus_of_several_products(kube_cluster: ClusterAccess) -> None:
    nodes = {node["metadata"]["name"]: node for node in kube_cluster.admin().get("/api/v1/nodes")["items"]}

    ours = [nodes[f"gpu-{number}"] for number in (1, 2, 3, 4)]
    products = [node["metadata"]["labels"]["nvidia.com/gpu.product"] for node in ours]
    conditions = [condition for node in ours for condition in node["status"]["conditions"]]
    assert products[0] == "RTX4090"
    assert len(set(products)) == 4
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in ours} == {"8"}
    assert {condition["status"] for condition in conditions if condition["type"] == "Ready"} == {"True"}


def test_a_deployment_that_asks_for_gpus_becomes_available(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    deployment = gpu_deployment("trainer", gpus=2)

    kube_cluster.kubectl("apply", "-n", kube_namespace, "-f", "-", input_text=json.dumps(deployment))
    kube_cluster.kubectl("wait", "-n", kube_namespace, "deploy/trainer", "--for=condition=Available", "--timeout=60s")

    pods = kube_cluster.admin().get(f"/api/v1/namespaces/{kube_namespace}/pods")["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    assert pods[0]["status"]["podIP"]


def test_the_admins_kubeconfig_is_private_and_carries_a_certificate(kube_cluster: ClusterAccess) -> None:
    user = json.loads(kube_cluster.kubeconfig.read_text())["users"][0]["user"]

    assert os.stat(kube_cluster.kubeconfig).st_mode & 0o077 == 0  # noqa: PTH116 - reads as the shell does
    assert b"BEGIN CERTIFICATE" in base64.b64decode(user["client-certificate-data"])
    assert "token" not in user


@pytest.mark.soak
def test_an_available_deployment_stays_so_for_two_minutes(kube_cluster: ClusterAccess, kube_namespace: str) -> None:
    kube_cluster.kubectl(
        "apply", "-n", kube_namespace, "-f", "-", input_text=json.dumps(gpu_deployment("steady", gpus=1))
    )
    kube_cluster.kubectl("wait", "-n", kube_namespace, "deploy/steady", "--for=condition=Available", "--timeout=60s")

    # Success is that kubectl times out after two minutes without seeing the Deployment unavailable.
    command = ["wait", "-n", kube_namespace, "deploy/steady", "--for=condition=Available=false", "--timeout=120s"]
    with pytest.raises(subprocess.CalledProcessError) as failure:
        kube_cluster.kubectl(*command)

    assert "timed out waiting for the condition" in failure.value.__notes__[0]


def gpu_deployment(name: str, gpus: int) -> dict[str, object]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "main", "image": "example/image", "resources": resources}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }
