"""Volumes of the real node: claims, images whose program fills one, and what a volume holds."""

from collections.abc import Mapping
from typing import Any

from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.images import ImageStore
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod

__all__ = ["add_filling_image", "claim_on_real_node", "run_with_volume", "volume_digests"]

# A line for each file and link: the name, a tab, and a digest or the target.
_DIGESTS = (
    'cd /data && find . -type f | while read -r f; do printf \'%s\\t%s\\n\' "$f" "$(sha256sum < "$f")"; done;'
    ' find . -type l | while read -r f; do printf \'%s\\t-> %s\\n\' "$f" "$(readlink "$f")"; done'
)


def claim_on_real_node(
    cluster: ClusterAccess, namespace: str, name: str = "data", *, mode: str = "ReadWriteOnce", size: str = "1Gi"
) -> None:
    """Create a claim whose volume is a directory of the real node."""
    requests = {"requests": {"storage": size}}
    spec = {"storageClassName": "host-path", "accessModes": [mode], "resources": requests}
    cluster.admin().create(
        f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec}
    )


def add_filling_image(images: ImageStore, name: str, files: Mapping[str, str], *, exit_code: int = 0) -> None:
    """Add an image whose program writes these files below /workspace, says how many, and ends with a code."""
    content = {f"/content/{path}": text for path, text in files.items()}
    program = f"cp -a /content/. /workspace/ && echo {len(files)} files > /dev/termination-log; exit {exit_code}"
    images.add(name, content, base="busybox", command=["sh", "-c", program])


def run_with_volume(
    cluster: ClusterAccess,
    namespace: str,
    node: str,
    name: str,
    command: str,
    *,
    claim: str = "data",
    image: str = BUSYBOX,
    user: int = 65532,
) -> str:
    """Run a shell command in a pod with a volume at /data, await its success, and return what it printed."""
    pod = _pod(name, command, node, claim, image, user)
    create_pod(cluster, namespace, pod)
    wait_for_pod(cluster, namespace, name, "jsonpath={.status.phase}=Succeeded")
    return cluster.kubectl("logs", name, "-n", namespace)


def volume_digests(
    cluster: ClusterAccess, namespace: str, node: str, images: ImageStore, claim: str = "data"
) -> dict[str, str]:
    """The SHA-256 of each file of a volume, and `-> TARGET` of each link, by path; read as root by a pod."""
    images.add(BUSYBOX, base="busybox")
    name = f"reader-of-{claim}"
    printed = run_with_volume(cluster, namespace, node, name, _DIGESTS, claim=claim, user=0)
    cluster.kubectl("delete", "pod", name, "-n", namespace)
    rows = (line.split("\t") for line in printed.splitlines())
    return {path.removeprefix("./"): found.removesuffix("  -") for path, found in rows}


def _pod(name: str, command: str, node: str, claim: str, image: str, user: int) -> dict[str, Any]:
    mounts = [{"name": "data", "mountPath": "/data"}]
    pod = real_pod(name, "sh", "-c", command, node=node, volumeMounts=mounts)
    pod["spec"]["containers"][0]["image"] = image
    pod["spec"] |= {
        "restartPolicy": "Never",
        "securityContext": {"runAsUser": user},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
    }
    return pod
