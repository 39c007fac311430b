"""Pod statuses as a kubelet would write them, written by a test, on a node without a simulated kubelet."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from gpuruntime.testing import AdminClient, ClusterAccess, NodeShape
from tests.product_scenes import Observer
from tests.reconcilers.unit_scenes import play_node

__all__ = ["RUNNING", "end", "say", "scheduled", "silent_node"]

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.fixture
def silent_node(product: ClusterAccess) -> Iterator[str]:
    """The GPU product of a node without a simulated kubelet."""
    name = f"silent-{uuid.uuid4().hex[:8]}"
    with play_node(product, NodeShape(name, product=name)):
        yield name


def scheduled(observer: Observer) -> list[str]:
    """The names of pods that have a node and are to stay."""
    pods = observer.pods.store.list().items
    return [pod.metadata.name for pod in pods if pod.spec.node_name and not pod.metadata.deletion_timestamp]


def say(
    admin: AdminClient,
    namespace: str,
    pod: str,
    phase: str,
    *,
    ready: bool,
    since: str = "2026-01-01T00:00:01Z",
    **container: Any,
) -> None:
    """Write the status of a pod as a kubelet does; it has been ready, or not, since this time."""
    status = {"name": "runtime-worker", "ready": ready, "restartCount": 0, "image": "x", "imageID": "", **container}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}"
    others = [known for known in admin.get(path)["status"]["conditions"] if known["type"] != "Ready"]
    body = {"phase": phase, "conditions": [*others, condition], "containerStatuses": [status]}
    admin.merge(f"{path}/status", {"status": body})


def end(admin: AdminClient, namespace: str, pod: str) -> None:
    """Say of a pod that is being deleted that its containers have ended, as a kubelet does: then it is gone."""
    admin.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}", {"gracePeriodSeconds": 0})
