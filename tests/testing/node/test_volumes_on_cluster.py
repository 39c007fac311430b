"""PersistentVolumeClaims on the real node."""

import hashlib

import pytest

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod
from tests.testing.node.volumes import add_filling_image, claim_on_real_node, run_with_volume, volume_digests

pytestmark = pytest.mark.real_node


def test_a_volume_keeps_bytes_across_pods_and_is_removed_with_its_claim(
    kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str, kube_images: ImageStore
) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    claim_on_real_node(kube_cluster, kube_namespace)

    run_with_volume(kube_cluster, kube_namespace, kube_real_node, "writer", "echo kept > /data/file")
    read = run_with_volume(kube_cluster, kube_namespace, kube_real_node, "reader", "cat /data/file")

    assert read == "kept\n"
    arguments = ("get", "pvc", "data", "-n", kube_namespace, "-o", "jsonpath={.spec.volumeName}")
    volume = kube_cluster.kubectl(*arguments)
    on_machine = kube_images.directory.parent / "volumes" / volume
    assert (on_machine / "file").read_text() == "kept\n"

    kube_cluster.kubectl("delete", "pods", "--all", "-n", kube_namespace)
    kube_cluster.kubectl("delete", "pvc", "data", "-n", kube_namespace)
    kube_cluster.kubectl("wait", f"pv/{volume}", "--for=delete", "--timeout=60s")
    assert not on_machine.exists()


@pytest.mark.parametrize("mode", ["ReadWriteMany", "ReadWriteOncePod"])
def test_a_program_fills_a_volume_of_each_mode_which_grows_meanwhile(
    mode: str, kube_cluster: ClusterAccess, kube_real_node: str, kube_namespace: str, kube_images: ImageStore
) -> None:
    files = {"model.bin": "weights", "deep/er/notes.txt": "a\nb\n"}
    add_filling_image(kube_images, "tests/filling:1", files)
    claim_on_real_node(kube_cluster, kube_namespace, mode=mode)
    pod = real_pod("filler", node=kube_real_node, volumeMounts=[{"name": "data", "mountPath": "/workspace"}])
    pod["spec"]["containers"][0] |= {"image": "tests/filling:1", "command": None}
    pod["spec"] |= {
        "restartPolicy": "Never",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }

    create_pod(kube_cluster, kube_namespace, pod)
    done = wait_for_pod(kube_cluster, kube_namespace, "filler", "jsonpath={.status.phase}=Succeeded")
    path = f"/api/v1/namespaces/{kube_namespace}/persistentvolumeclaims/data"
    kube_cluster.admin().merge(path, {"spec": {"resources": {"requests": {"storage": "3Gi"}}}})
    digests = volume_digests(kube_cluster, kube_namespace, kube_real_node, kube_images)
    grown = "jsonpath={.status.capacity.storage}=3Gi"
    kube_cluster.kubectl("wait", "pvc/data", "-n", kube_namespace, f"--for={grown}", "--timeout=60s")

    assert done["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "2 files\n"
    assert digests == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
