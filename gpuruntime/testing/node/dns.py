"""The DNS of real nodes: CoreDNS on each of them, as pure functions from its names to an image and its objects.

Each node answers its own pods, so that nodes need no way to each other.
"""

from pathlib import Path
from typing import Any, Final

from gpuruntime.testing.images import File, Files

__all__ = [
    "DNS_ADDRESS",
    "DNS_COMMAND",
    "DNS_DAEMON_SET",
    "DNS_IMAGE",
    "DNS_LABELS",
    "DNS_NAMESPACE",
    "dns_files",
    "dns_objects",
]

DNS_ADDRESS: Final = "10.96.0.10"
DNS_IMAGE: Final = "gpuruntime.local/dns:1"
DNS_NAMESPACE: Final = "kube-system"
DNS_DAEMON_SET: Final = "dns"
DNS_COMMAND: Final = ("/dns", "-conf", "/Corefile")
DNS_LABELS: Final = {"k8s-app": "kube-dns"}
_READY_PORT: Final = 8181
# Names outside of the cluster are refused at once: pods do not reach other name servers.
_COREFILE: Final = """\
.:53 {
    errors
    ready :8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 1
    }
}
"""


def dns_files(binary: Path) -> Files:
    """The files of the image, from the binary of CoreDNS."""
    return {"/dns": File(binary, 0o755), "/Corefile": _COREFILE}


def dns_objects(real_node: str) -> list[tuple[str, dict[str, Any]]]:
    """The objects, each with the path of its collection. `real_node` is the label and the taint of real nodes."""
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": DNS_DAEMON_SET}
    account = {"kind": "ServiceAccount", "name": DNS_DAEMON_SET, "namespace": DNS_NAMESPACE}
    metadata = {"name": DNS_DAEMON_SET, "labels": DNS_LABELS}
    core, rbac = f"/api/v1/namespaces/{DNS_NAMESPACE}", "/apis/rbac.authorization.k8s.io/v1"
    return [
        (f"{core}/serviceaccounts", {"metadata": metadata}),
        (f"{rbac}/clusterroles", {"metadata": metadata, "rules": rules}),
        (f"{rbac}/clusterrolebindings", {"metadata": metadata, "roleRef": role, "subjects": [account]}),
        (f"{core}/services", {"metadata": {"name": "kube-dns", "labels": DNS_LABELS}, "spec": _service()}),
        (
            f"/apis/apps/v1/namespaces/{DNS_NAMESPACE}/daemonsets",
            {"metadata": metadata, "spec": _daemon_set(real_node)},
        ),
    ]


def _service() -> dict[str, Any]:
    return {
        "clusterIP": DNS_ADDRESS,
        "selector": DNS_LABELS,
        # To the pod on the same node.
        "internalTrafficPolicy": "Local",
        "ports": [{"name": f"dns-{protocol.lower()}", "port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")],
    }


def _daemon_set(real_node: str) -> dict[str, Any]:
    container = {
        "name": "dns",
        "image": DNS_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "ports": [{"containerPort": 53, "protocol": protocol} for protocol in ("UDP", "TCP")],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": _READY_PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    spec = {
        "serviceAccountName": DNS_DAEMON_SET,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {real_node: "true"},
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
        # Its own name server would be itself.
        "dnsPolicy": "Default",
        "containers": [container],
    }
    return {"selector": {"matchLabels": DNS_LABELS}, "template": {"metadata": {"labels": DNS_LABELS}, "spec": spec}}
