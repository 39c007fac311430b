"""The accessor as a pod of the product's own image, behind the guard rails, on a node that runs containers."""

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from attrs import frozen

from gpuruntime.api.gpustorage import GPUStorage, GPUStorageSpec
from gpuruntime.desired.storage.accessor import ACCESSOR_PORT, AccessorRendering, accessor_deployment
from gpuruntime.gateway.signing.bearer import signed_bearer
from gpuruntime.gateway.signing.keys import SigningKey
from gpuruntime.meta import ObjectMeta, encode
from gpuruntime.testing import ClusterAccess
from gpuruntime.testing.cluster.namespaces import create_namespace
from gpuruntime.testing.images import ImageStore
from hack.dev.product_image import add_product_image
from tests.testing.node.pods import BUSYBOX, create_pod, real_pod, wait_for_pod

# It builds the image.
pytestmark = [pytest.mark.real_node, pytest.mark.soak]
GUARD_RAILS = Path(__file__).resolve().parents[3] / "manifests" / "guard-rails" / "network-policies.yaml"
WITHIN_SECONDS = 30.0
SYSTEM = "gpuruntime-system"


@frozen
class Cluster:
    """A storage with files, its accessor, and the namespaces of a gateway and of others."""

    access: ClusterAccess
    node: str
    storages: str
    gateway: str
    key: SigningKey
    storage: GPUStorage

    def bearer(self, audience: str = "") -> str:
        return signed_bearer(self.key, audience or self.storage.metadata.uid, time.time())

    def run(self, namespace: str, pod: str, *command: str) -> tuple[bool, str]:
        try:
            return True, self.access.kubectl("exec", pod, "-n", namespace, "--", *command)
        except subprocess.CalledProcessError as error:
            return False, f"{error.stdout or ''}{error.stderr or ''}"

    def fetch(self, address: str, path: str, bearer: str, pod: str = "proxy") -> tuple[bool, str]:
        """Whether a pod of the gateway's namespace gets a file, and what it gets."""
        request = f"GET /files/{path} HTTP/1.0\\r\\nAuthorization: Bearer {bearer}\\r\\n\\r\\n"
        # The server takes the end of the input for a caller that left; wget of a static busybox needs name services.
        command = f"(printf '{request.replace('%', '%%')}'; sleep 2) | nc -w 3 {address} {ACCESSOR_PORT}"
        _, text = self.run(self.gateway, pod, "sh", "-c", command)
        head, _, body = text.replace("\r\n", "\n").partition("\n\n")
        return " 200 " in head.partition("\n")[0], body


@pytest.fixture
def cluster(kube_cluster: ClusterAccess, kube_real_node: str, tmp_path: Path) -> Iterator[Cluster]:
    admin, suffix = kube_cluster.admin(), uuid.uuid4().hex[:8]
    storages, gateway = f"storages-{suffix}", f"gateway-{suffix}"
    for name in (storages, gateway):
        create_namespace(admin, name)
    volume, claim = _volume(tmp_path / "volume", storages)
    admin.create("/api/v1/persistentvolumes", volume)
    admin.create(f"/api/v1/namespaces/{storages}/persistentvolumeclaims", claim)
    storage = GPUStorage(
        metadata=ObjectMeta(name="data", namespace=storages, uid=str(uuid.uuid4())), spec=GPUStorageSpec("1Gi")
    )
    yield Cluster(kube_cluster, kube_real_node, storages, gateway, SigningKey.generate(), storage)
    for name in (storages, gateway):
        admin.delete(f"/api/v1/namespaces/{name}")
    admin.delete(f"/api/v1/persistentvolumes/{storages}")


def _volume(root: Path, namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    root.mkdir()
    for directory in (root, *root.parents):
        if directory.stat().st_uid == os.getuid() and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o555)
    (root / "file.txt").write_text("from the volume")
    (root / "out").symlink_to("/etc/passwd")
    shared = {"accessModes": ["ReadWriteOnce"]}
    size = {"storage": "1Gi"}
    source = {"capacity": size, "hostPath": {"path": str(root)}, "claimRef": {"namespace": namespace, "name": "data"}}
    wanted = {"storageClassName": "", "volumeName": namespace, "resources": {"requests": size}}
    return (
        {"metadata": {"name": namespace}, "spec": {**shared, **source}},
        {"metadata": {"name": "data"}, "spec": {**shared, **wanted}},
    )


def _start(cluster: Cluster, image: str) -> str:
    """Start the accessor on the real node, and the pods around it; returns its address."""
    rendering = AccessorRendering(image, (cluster.key.public_text,))
    template = encode(accessor_deployment(cluster.storage, rendering))["spec"]["template"]
    pod = {"metadata": {"name": "accessor", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    pod["spec"] |= {"nodeName": cluster.node, "tolerations": [{"operator": "Exists"}]}
    create_pod(cluster.access, cluster.storages, pod)
    for name in ("proxy", "stranger"):
        create_pod(cluster.access, cluster.gateway, real_pod(name, "sleep", "600", node=cluster.node))
        wait_for_pod(cluster.access, cluster.gateway, name)
    label = "app.kubernetes.io/name=gpuruntime-access-gateway"
    cluster.access.kubectl("label", "pod", "proxy", "-n", cluster.gateway, label)
    return str(wait_for_pod(cluster.access, cluster.storages, "accessor")["status"]["podIP"])


def _guard(cluster: Cluster) -> None:
    for policy in yaml.safe_load_all(GUARD_RAILS.read_text()):
        if policy["metadata"]["namespace"] == "runtime-instance":
            text = json.dumps(policy).replace("runtime-instance", cluster.storages).replace(SYSTEM, cluster.gateway)
            cluster.access.kubectl("apply", "-f", "-", input_text=text)


@pytest.mark.timeout(600)
def test_an_accessor_serves_what_the_gateway_signed_and_nothing_else(cluster: Cluster, kube_images: ImageStore) -> None:
    kube_images.add(BUSYBOX, base="busybox")
    address = _start(cluster, add_product_image(kube_images))

    served = cluster.fetch(address, "file.txt", cluster.bearer())
    refused = [
        cluster.fetch(address, "file.txt", "nothing"),
        cluster.fetch(address, "file.txt", cluster.bearer("another-uid")),
        cluster.fetch(address, "out", cluster.bearer()),
        cluster.fetch(address, "%2e%2e/etc/passwd", cluster.bearer()),
    ]
    write = cluster.run(cluster.storages, "accessor", "python3", "-c", "open('/data/new', 'w')")
    root = cluster.run(cluster.storages, "accessor", "python3", "-c", "open('/tmp/new', 'w')")
    _guard(cluster)
    deadline = time.monotonic() + WITHIN_SECONDS
    while cluster.fetch(address, "file.txt", cluster.bearer(), "stranger")[0] and time.monotonic() < deadline:
        pass
    stranger = cluster.fetch(address, "file.txt", cluster.bearer(), "stranger")
    gateway = cluster.fetch(address, "file.txt", cluster.bearer())
    dial = "import socket; socket.create_connection(('kubernetes.default.svc.cluster.local', 443), 3)"
    outside = cluster.run(cluster.storages, "accessor", "python3", "-c", dial)

    assert served == (True, "from the volume")
    assert not any(done or "root:" in text for done, text in refused)
    assert "Read-only file system" in write[1]
    assert "Read-only file system" in root[1]
    assert not stranger[0]
    assert gateway == (True, "from the volume")
    assert not outside[0]
    wait_for_pod(cluster.access, cluster.storages, "accessor")
