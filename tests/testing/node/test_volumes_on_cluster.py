"""PersistentVolumeClaims on the real node."""

import json

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod

pytestmark = pytest.mark.real_node
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "storageClassName": "host-path",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


def test_a_volume_keeps_bytes_across_pods_and_is_removed_with_its_claim(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str, kube_images: ImageStore
) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    kube_cluster.kubectl("create", "-f", "-", "-n", kube_namespace, input_text=json.dumps(CLAIM))

    def run(name: str, command: str) -> str:
        mounts = [{"name": "data", "mountPath": "/data"}]
        pod = real_pod(name, "sh", "-c", command, node=kube_real_node, volumeMounts=mounts)
        pod["spec"] |= {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 65532},
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        }
        create_pod(kube_cluster, kube_namespace, pod)
        wait_for_pod(kube_cluster, kube_namespace, name, "jsonpath={.status.phase}=Succeeded")
        return kube_cluster.kubectl("logs", name, "-n", kube_namespace)

    run("writer", "echo kept > /data/file")
    read = run("reader", "cat /data/file")

    assert read == "kept\n"
    arguments = ("get", "pvc", "data", "-n", kube_namespace, "-o", "jsonpath={.spec.volumeName}")
    volume = kube_cluster.kubectl(*arguments)
    on_machine = kube_images.directory.parent / "volumes" / volume
    assert (on_machine / "file").read_text() == "kept\n"

    kube_cluster.kubectl("delete", "pods", "--all", "-n", kube_namespace)
    kube_cluster.kubectl("delete", "pvc", "data", "-n", kube_namespace)
    kube_cluster.kubectl("wait", f"pv/{volume}", "--for=delete", "--timeout=60s")
    assert not on_machine.exists()
