"""Fake GPUs by dynamic resource allocation on the real node."""

import json

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod

pytestmark = pytest.mark.real_node
REQUEST = {"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "two"},
    "spec": {"spec": {"devices": {"requests": [REQUEST]}}},
}


def test_a_pod_sees_the_gpus_that_its_resource_claim_was_given(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str, kube_images: ImageStore
) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    kube_cluster.kubectl("create", "-f", "-", "-n", kube_namespace, input_text=json.dumps(TEMPLATE))
    claims = {"claims": [{"name": "gpus"}]}
    pod = real_pod(
        "gpus", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES; exec sleep 60", node=kube_real_node, resources=claims
    )
    pod["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "two"}]

    create_pod(kube_cluster, kube_namespace, pod)
    wait_for_pod(kube_cluster, kube_namespace, "gpus")

    claim = json.loads(kube_cluster.kubectl("get", "resourceclaims", "-n", kube_namespace, "-o", "json"))["items"][0]
    given = [one["device"] for one in claim["status"]["allocation"]["devices"]["results"]]
    seen = kube_cluster.kubectl("logs", "gpus", "-n", kube_namespace).strip().split(",")
    assert len(set(given)) == 2
    assert seen == [f"GPU-{kube_real_node}-{device}" for device in given]
