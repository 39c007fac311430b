"""Objects for tests of network policies, in the words of their manifests."""

from typing import Any

from gpuruntime.kube.builtin.core import Namespace
from gpuruntime.kube.builtin.networking import NetworkPolicy
from gpuruntime.kube.builtin.pods import Pod
from gpuruntime.meta.codec import decode

__all__ = ["NODE", "namespace", "pod", "policy"]

NODE = "real-1"


def pod(name: str, address: str = "", *, node: str = NODE, labels: dict[str, str] | None = None, **fields: Any) -> Pod:
    """A pod `NAMESPACE/NAME`; `ports` are its ports by name, `phase` and `host_network` say what they say."""
    space, _, own = name.partition("/")
    ports = [
        {"name": known, "containerPort": number, "protocol": protocol}
        for known, (protocol, number) in fields.get("ports", {}).items()
    ]
    body = {
        "metadata": {"namespace": space, "name": own, "labels": labels or {}},
        "spec": {
            "nodeName": node,
            "hostNetwork": fields.get("host_network", False),
            "containers": [{"name": "x", "image": "x", "ports": ports}],
        },
        "status": {
            "phase": fields.get("phase", "Running"),
            "podIP": address,
            "podIPs": [{"ip": one} for one in address.split(",") if one],
        },
    }
    return decode(Pod, body)


def namespace(name: str, **labels: str) -> Namespace:
    return decode(Namespace, {"metadata": {"name": name, "labels": labels}})


def policy(name: str, **spec: Any) -> NetworkPolicy:
    space, _, own = name.partition("/")
    return decode(NetworkPolicy, {"metadata": {"namespace": space, "name": own}, "spec": {"podSelector": {}, **spec}})
