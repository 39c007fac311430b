"""A unit does not start, and its status has the cause."""

from typing import Any

from e2e.cluster_view import condition, eventually
from e2e.installation import Installation
from e2e.names import INSTANCES
from e2e.stories.orders import SMALL, order
from gpuruntime.testing import NodeShape


def test_a_unit_is_unschedulable_until_a_node_fits(installation: Installation, suffix: str) -> None:
    spec, name, product = f"unschedulable-{suffix}", f"unschedulable-{suffix}", f"rare-{suffix}"
    body = order(name, spec, coldStart=True, gpuType=product, **SMALL)

    made = installation.api.post("/gpu-units", body)
    failing = eventually(lambda: unit_with_reason(installation, name, "Unschedulable"), "an unschedulable unit")
    with installation.cluster.node(NodeShape(f"late-{suffix}", gpus=1, product=product)):
        ready = installation.api.get(f"/gpu-units/{name}/wait?for=Ready&timeout=90")
        installation.api.delete(f"/gpu-units/{name}")
        eventually(lambda: not installation.cluster.pods(name), "the end of its pod")

    assert (made.status, failing["phase"]) == (201, "Progressing")
    assert "nodes are available" in failing["message"]
    assert (ready.status, ready.data["phase"]) == (200, "Ready")


def test_an_image_that_cannot_be_pulled_is_named_until_it_can_be(installation: Installation, suffix: str) -> None:
    spec, name, product = f"imageless-{suffix}", f"imageless-{suffix}", f"silent-{suffix}"
    body = order(name, spec, coldStart=True, gpuType=product, **SMALL)
    with installation.cluster.node(NodeShape(product, gpus=1, product=product), simulated=False):
        installation.api.post("/gpu-units", body)
        pod = eventually(lambda: bound_pod(installation, name), "a pod on the node")

        waiting = {"reason": "ErrImagePull", "message": "nginx:1.27: manifest unknown"}
        set_pod_status(installation, pod, "Pending", {"waiting": waiting}, ready=False)
        failing = eventually(lambda: unit_with_reason(installation, name, "ImagePullFailed"), "a unit without an image")
        seen = condition(installation.cluster.unit(name))
        set_pod_status(installation, pod, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ready=True)
        ready = installation.api.get(f"/gpu-units/{name}/wait?for=Ready&timeout=90")
        installation.cluster.core.delete_namespaced_pod(pod, INSTANCES, grace_period_seconds=0)

    assert failing["phase"] == "Failed"
    assert "nginx:1.27: manifest unknown" in failing["message"]
    assert (seen["status"], seen["reason"], seen["message"]) == ("False", "ImagePullFailed", failing["message"])
    assert (ready.status, ready.data["phase"]) == (200, "Ready")


def unit_with_reason(installation: Installation, name: str, reason: str) -> Any:
    """The unit as the API shows it, if it has this reason."""
    shown = installation.api.get(f"/gpu-units/{name}").data
    return shown if shown.get("reason") == reason else None


def bound_pod(installation: Installation, name: str) -> str | None:
    return next((pod.metadata.name for pod in installation.cluster.pods(name) if pod.spec.node_name), None)


def set_pod_status(installation: Installation, pod: str, phase: str, state: dict[str, Any], *, ready: bool) -> None:
    """Write the status of a pod as a kubelet would."""
    container = {"name": "runtime-worker", "image": "", "imageID": "", "restartCount": 0, "ready": ready}
    conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{**container, "state": state}]}
    installation.cluster.core.patch_namespaced_pod_status(pod, INSTANCES, {"status": status})
