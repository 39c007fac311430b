"""Fake GPU nodes, whose kubelets are simulated by kwok."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

__all__ = ["NodeShape", "default_nodes"]

FAKE_NODE_ANNOTATION = "kwok.x-k8s.io/node"
_GPU_RESOURCE = "nvidia.com/gpu"
PRODUCTS = ("RTX4090", "NVIDIA-L40S", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")


@frozen
class NodeShape:
    """A node as the scheduler sees it. Pods bound to it become Running at once, without containers.

    `taints` maps keys to effects: `{"nvidia.com/gpu": "NoSchedule"}`.
    """

    name: str
    gpus: int = 8
    product: str = "RTX4090"
    cpu: str = "128"
    memory: str = "1Ti"
    pods: int = 250
    labels: Mapping[str, str] = {}
    taints: Mapping[str, str] = {}

    def for_gpu_pods(self) -> "NodeShape":
        """The shape with the taint that GPU nodes commonly have: it repels pods that request no GPU."""
        return evolve(self, taints={_GPU_RESOURCE: "NoSchedule", **self.taints})

    def manifest(self) -> dict[str, Any]:
        """The Node object to create; kwok makes it Ready and renews its lease."""
        resources = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods)}
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": "fake",
        }
        if self.gpus:
            resources[_GPU_RESOURCE] = str(self.gpus)
            labels["nvidia.com/gpu.product"] = self.product
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {**labels, **self.labels},
                "annotations": {FAKE_NODE_ANNOTATION: "fake"},
            },
            "spec": {"taints": [{"key": key, "effect": effect} for key, effect in self.taints.items()]},
            "status": {"capacity": resources, "allocatable": resources},
        }


def default_nodes(
    count: int = 4, gpus: int = 8, cpu: str = "128", memory: str = "1Ti", products: tuple[str, ...] = PRODUCTS
) -> tuple[NodeShape, ...]:
    """`count` nodes of one size, with the GPU products in rotation; the first is an RTX4090."""
    return tuple(
        NodeShape(
            name=f"gpu-{number + 1}",
            gpus=gpus,
            product=products[number % len(products)],
            cpu=cpu,
            memory=memory,
        )
        for number in range(count)
    )
