"""The objects of the benches: pods that no scheduler handles."""

from typing import Any

__all__ = ["PODS", "pod"]

_NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
"""The path of their collection."""


def pod(number: int) -> dict[str, Any]:
    """A typical pod of an inference service, with about 1.5 KB of spec."""
    environment = [
        {"name": f"SETTING_{index}", "value": f"a value of some length, as settings have it, {number}-{index}"}
        for index in range(7)
    ]
    container = {
        "name": "server",
        "image": "registry.example.org/team/inference-server:v1.27.3-cuda12.8",
        "args": ["--model=/models/current", "--port=8080", f"--replica={number}", "--log-format=json"],
        "env": environment,
        "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
        "resources": {
            "requests": {"cpu": "4", "memory": "16Gi"},
            "limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"},
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}, "periodSeconds": 5},
        "livenessProbe": {"httpGet": {"path": "/livez", "port": 8080}, "periodSeconds": 20},
        "volumeMounts": [{"name": "models", "mountPath": "/models"}, {"name": "scratch", "mountPath": "/scratch"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"bench-{number:06d}",
            "namespace": _NAMESPACE,
            "labels": {"app": "bench", "shard": str(number % 64), "app.kubernetes.io/name": "inference-server"},
            "annotations": {"example.org/requested-by": f"user-{number % 97}@example.org"},
        },
        "spec": {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [
                {"name": "models", "persistentVolumeClaim": {"claimName": "models", "readOnly": True}},
                {"name": "scratch", "emptyDir": {"sizeLimit": "50Gi"}},
            ],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }
