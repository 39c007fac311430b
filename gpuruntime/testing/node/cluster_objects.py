"""The objects of a cluster that real nodes need: a Node, an endpoint of the API server, DNS and a storage class."""

import contextlib
import http
from typing import Any

from attrs import frozen

from gpuruntime.testing.cluster.admin import AdminClient, RefusedError
from gpuruntime.testing.cluster.pki import KUBELET_CLIENT
from gpuruntime.testing.node.addresses import API_PORT, Addresses
from gpuruntime.testing.node.configuration import REAL_NODE
from gpuruntime.testing.node.dns import DNS_LABELS, DNS_NAMESPACE, dns_objects
from gpuruntime.testing.volumes.host_path import HOST_PATH_CLASS, HOST_PATH_PROVISIONER
from gpuruntime.testing.volumes.storage_class import storage_class

__all__ = ["ClusterObjects"]

_API_SERVICE = "/api/v1/namespaces/default/services/kubernetes"
_SERVICE_NAME = "kubernetes.io/service-name"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
_GPU = "nvidia.com/gpu"
_GPU_DRIVER = "gpu.nvidia.com"


@frozen
class ClusterObjects:
    """Creates and deletes them. The Node itself is created by the kubelet."""

    admin: AdminClient
    node: str
    addresses: Addresses

    def create(self) -> None:
        """Create what the node needs before it starts, after deleting what a killed node of this name or with these
        addresses left.
        """
        self.delete()
        self._delete_stale_endpoints()
        self.admin.create(_SLICES, self._endpoint_slice())
        for path, body in _shared_objects():
            with contextlib.suppress(RefusedError):  # another real node of the cluster has created it
                self.admin.create(path, body)

    def delete(self) -> None:
        """Delete the Node and the endpoint. Kubernetes deletes pods of a missing node within a minute."""
        self.admin.delete(f"/api/v1/nodes/{self.node}")
        self.admin.delete(f"{_SLICES}/{self._endpoint_slice()['metadata']['name']}")

    def _delete_stale_endpoints(self) -> None:
        """Of two endpoints with one address, kube-proxy takes either: it may believe that this one is of another node.

        The number of this node is reserved, so another endpoint with its address is of a node that was killed.
        """
        found = self.admin.get(f"{_SLICES}?labelSelector={_SERVICE_NAME}=kubernetes")
        for one in found["items"]:
            if any(self.addresses.machine in endpoint["addresses"] for endpoint in one["endpoints"] or ()):
                self.admin.delete(f"{_SLICES}/{one['metadata']['name']}")

    def shortcoming(self) -> str:
        """What the node lacks to be used, "" if it is Ready, free of the taint of new nodes, and its DNS answers."""
        try:
            node = self.admin.get(f"/api/v1/nodes/{self.node}")
        except RefusedError as error:
            if error.status == http.HTTPStatus.NOT_FOUND:
                return "its kubelet has not created the Node"
            raise
        conditions = {one["type"]: one for one in node["status"].get("conditions", [])}
        ready = conditions.get("Ready", {})
        if ready.get("status") != "True":
            return f"the Node is not Ready: {ready.get('message', 'no condition yet')}"
        if any(one["key"] == "node.kubernetes.io/not-ready" for one in node["spec"].get("taints", [])):
            return "the Node has the taint node.kubernetes.io/not-ready"
        return self._dns_shortcoming()

    def _dns_shortcoming(self) -> str:
        found = self.admin.get(f"/api/v1/namespaces/{DNS_NAMESPACE}/pods?fieldSelector=spec.nodeName={self.node}")
        pods = [pod for pod in found["items"] if pod["metadata"]["labels"].items() >= DNS_LABELS.items()]
        if not pods:
            return "it has no pod for DNS"
        conditions = [one for pod in pods for one in pod["status"].get("conditions", [])]
        if any((one["type"], one["status"]) == ("Ready", "True") for one in conditions):
            return ""
        states = [one["state"] for pod in pods for one in pod["status"].get("containerStatuses", [])]
        return f"pod {pods[0]['metadata']['name']} for DNS is not ready: {states}"

    def keep_api_traffic_local(self) -> None:
        """Make pods reach the API server by the endpoint of their own node.

        Each node has one, and that of a node that was killed stays: without this, some connections would go there.
        """
        self.admin.merge(_API_SERVICE, {"spec": {"internalTrafficPolicy": "Local"}})

    def offer_gpus(self, count: int) -> None:
        """Make the node offer GPUs. The kubelet keeps resources of others in its status."""
        if count:
            resources = {_GPU: str(count)}
            status = {"status": {"capacity": resources, "allocatable": resources}}
            self.admin.merge(f"/api/v1/nodes/{self.node}/status", status)

    def _endpoint_slice(self) -> dict[str, Any]:
        """An endpoint of the Service `kubernetes`, by which pods reach the API server at 10.96.0.1."""
        return {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"kubernetes-{self.node}", "labels": {_SERVICE_NAME: "kubernetes"}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": [self.addresses.machine], "conditions": {"ready": True}, "nodeName": self.node}
            ],
            "ports": [{"name": "https", "port": API_PORT, "protocol": "TCP"}],
        }


def _shared_objects() -> list[tuple[str, dict[str, Any]]]:
    """The objects that all real nodes of a cluster share, each with the path of its collection."""
    host_path = storage_class(HOST_PATH_CLASS, HOST_PATH_PROVISIONER, expands=True)
    return [
        (_BINDINGS, _binding()),
        ("/apis/storage.k8s.io/v1/storageclasses", host_path),
        ("/apis/resource.k8s.io/v1/deviceclasses", _device_class()),
        *dns_objects(REAL_NODE),
    ]


def _device_class() -> dict[str, Any]:
    """The class of GPUs for ResourceClaims, as the real driver has it."""
    gpu = f"device.driver == '{_GPU_DRIVER}' && device.attributes['{_GPU_DRIVER}'].type == 'gpu'"
    return {"metadata": {"name": _GPU_DRIVER}, "spec": {"selectors": [{"cel": {"expression": gpu}}]}}


def _binding() -> dict[str, Any]:
    """Lets the API server use the kubelet's own API: logs, exec and port-forward."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": KUBELET_CLIENT},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:kubelet-api-admin",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": KUBELET_CLIENT}],
    }
