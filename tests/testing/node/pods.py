"""Pods that run on the real node."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from gpuruntime.testing import ClusterAccess

__all__ = ["BUSYBOX", "OWN_TAINTS", "create_pod", "real_pod", "wait_for_pod"]

BUSYBOX = "busybox:1.36"
_REAL_NODE = "gpuruntime.local/real-node"
OWN_TAINTS = {_REAL_NODE: "NoSchedule", "tests.example.org/own-node": "NoSchedule"}
"""The taints of a node that one test has in the shared cluster: pods of other tests, whose images it lacks, stay
away."""


def real_pod(name: str, *command: str, node: str, **container: Any) -> dict[str, Any]:
    """A pod of one busybox container, bound by the scheduler to `node`. It ends at once when it is deleted."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {_REAL_NODE: "true", "kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": BUSYBOX, "command": list(command), **container}],
        },
    }


def create_pod(cluster: ClusterAccess, namespace: str, pod: dict[str, Any]) -> None:
    cluster.admin().create(f"/api/v1/namespaces/{namespace}/pods", pod)


def wait_for_pod(cluster: ClusterAccess, namespace: str, name: str, state: str = "condition=Ready") -> dict[str, Any]:
    """Wait until kubectl sees a state: `condition=Ready`, `jsonpath={...}=...`; returns the pod.

    The exception of a wait in vain has the pod's description and logs as notes.
    """
    arguments: Sequence[str] = (
        "wait",
        f"pod/{name}",
        "-n",
        namespace,
        f"--for={state}",
        "--timeout=60s",
        "--output=json",
    )
    try:
        pod: dict[str, Any] = json.loads(cluster.kubectl(*arguments))
    except subprocess.CalledProcessError as error:
        error.add_note(cluster.kubectl("describe", f"pod/{name}", "-n", namespace))
        error.add_note(cluster.kubectl("logs", name, "-n", namespace, "--ignore-errors", "--prefix"))
        raise
    return pod
