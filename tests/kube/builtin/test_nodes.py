from gpuruntime.kube.builtin.nodes import Node, Taint
from gpuruntime.meta.codec import decode, encode
from gpuruntime.meta.conditions import is_true


def test_a_node_has_capacity_and_taints() -> None:
    wire = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-1"},
        "spec": {
            "podCIDR": "10.1.0.0/24",
            "podCIDRs": ["10.1.0.0/24"],
            "providerID": "kwok://gpu-1",
            "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
        },
        "status": {
            "allocatable": {"nvidia.com/gpu": "8"},
            "capacity": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"bootID": ""},
        },
    }

    node = decode(Node, wire)

    assert node.spec.taints == (Taint("nvidia.com/gpu", "NoSchedule"),)
    assert (node.spec.pod_cidr, node.spec.provider_id) == ("10.1.0.0/24", "kwok://gpu-1")
    assert node.status.allocatable == {"nvidia.com/gpu": "8"}
    assert is_true(node.status.conditions, "Ready")
    assert encode(node) == wire
