"""A cluster with a real node that has the product's own image, and a way to its API, for the stories of e2e/."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from gpuruntime.testing import ClusterAccess, LocalCluster
from gpuruntime.testing.cluster.namespaces import create_namespace
from gpuruntime.testing.images import ImageStore
from gpuruntime.testing.node.forwarder import __file__ as forwarder_script
from gpuruntime.testing.node.real import RealNode
from gpuruntime.testing.volumes.host_path import HOST_PATH_CLASS
from hack.dev.product_image import add_product_image
from hack.dev.stack.clusters import DEFAULT_CLASS

__all__ = ["StoryCluster", "story_cluster"]

_NAMESPACE: Final = "e2e-gateway"
_IMAGE: Final = "e2e/gateway:1"
_BUSYBOX: Final = "busybox:1.36"
_API: Final = ("gpuruntime-runtime-api.gpuruntime-system.svc", "8080")
# The API accepts connections from namespaces with this label.
_LABELS: Final = {"runtime.lokiwager.io/api-clients": "allowed"}


@frozen
class StoryCluster:
    """A running cluster; `gateway` is the pod, as `NAMESPACE/pod/NAME`, that passes connections on to the API.

    The gateway uses the Service, so that connections go to all ready replicas, and outlives their restarts. A
    port-forward to a replica would end with it.
    """

    access: ClusterAccess
    gateway: str

    def environment(self) -> dict[str, str]:
        """The variables by which the stories find it."""
        return {
            "E2E_KUBECONFIG": str(self.access.kubeconfig),
            "E2E_AUDIT_LOG": str(self.access.audit_log),
            "E2E_GATEWAY": self.gateway,
        }


@contextmanager
def story_cluster() -> Iterator[StoryCluster]:
    """Start the cluster, build the image into it, and start the gateway. Nothing stays after the block.

    Raises:
        RealNodeUnavailableError: this machine cannot run a real node.
        ImageBuildError: the image could not be built.
    """
    with (
        LocalCluster(nodes=(), audit=True) as cluster,
        # The product's pods have no toleration of the usual taint.
        RealNode(cluster.access, taints={}) as node,
    ):
        add_product_image(node.images)
        # What units run that mount storages, and what copies and wipes them.
        node.images.add(_BUSYBOX, base="busybox")
        cluster.access.kubectl("annotate", "storageclass", HOST_PATH_CLASS, DEFAULT_CLASS)
        _start_gateway(cluster.access, node.images)
        yield StoryCluster(cluster.access, f"{_NAMESPACE}/pod/gateway")


def _start_gateway(access: ClusterAccess, images: ImageStore) -> None:
    command = ["python3", "/forwarder.py", "0.0.0.0", "8080", *_API]
    images.add(_IMAGE, {"/forwarder.py": Path(forwarder_script)}, base="python", entrypoint=command, user="65532")
    create_namespace(access.admin(), _NAMESPACE)
    access.admin().merge(f"/api/v1/namespaces/{_NAMESPACE}", {"metadata": {"labels": _LABELS}})
    pod: dict[str, Any] = {
        "metadata": {"name": "gateway"},
        "spec": {
            "containers": [{"name": "gateway", "image": _IMAGE}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    access.admin().create(f"/api/v1/namespaces/{_NAMESPACE}/pods", pod)
    access.kubectl("wait", "pod/gateway", "-n", _NAMESPACE, "--for=condition=Ready", "--timeout=60s")
