"""A unit does not start, and its user is told why."""

from typing import Any

from e2e.cluster_view import condition, eventually
from e2e.installation import Installation
from e2e.names import INSTANCES
from e2e.stories.orders import SMALL, order
from gpuruntime.testing import NodeShape


def test_a_unit_that_no_node_takes_says_so_until_one_does(installation: Installation, mark: str) -> None:
    spec, name, product = f"homeless-{mark}", f"homeless-{mark}", f"rare-{mark}"
    body = order(name, spec, coldStart=True, gpuType=product, **SMALL)

    made = installation.api.post("/gpu-units", body)
    told = eventually(lambda: because(installation, name, "Unschedulable"), "a unit that no node takes")
    with installation.cluster.node(NodeShape(f"late-{mark}", gpus=1, product=product)):
        ready = installation.api.get(f"/gpu-units/{name}/wait?for=Ready&timeout=90")
        installation.api.delete(f"/gpu-units/{name}")
        eventually(lambda: not installation.cluster.pods(name), "the end of its pod")

    assert (made.status, told["phase"]) == (201, "Progressing")
    assert "nodes are available" in told["message"]
    assert (ready.status, ready.data["phase"]) == (200, "Ready")


def test_an_image_that_cannot_be_pulled_is_named_until_it_can(installation: Installation, mark: str) -> None:
    spec, name, product = f"imageless-{mark}", f"imageless-{mark}", f"silent-{mark}"
    body = order(name, spec, coldStart=True, gpuType=product, **SMALL)
    with installation.cluster.node(NodeShape(product, gpus=1, product=product), played=False):
        installation.api.post("/gpu-units", body)
        pod = eventually(lambda: bound_pod(installation, name), "a pod on the node")

        waiting = {"reason": "ErrImagePull", "message": "nginx:1.27: manifest unknown"}
        say(installation, pod, "Pending", {"waiting": waiting}, ready=False)
        told = eventually(lambda: because(installation, name, "ImagePullFailed"), "a unit without an image")
        seen = condition(installation.cluster.unit(name))
        say(installation, pod, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ready=True)
        ready = installation.api.get(f"/gpu-units/{name}/wait?for=Ready&timeout=90")
        installation.cluster.core.delete_namespaced_pod(pod, INSTANCES, grace_period_seconds=0)

    assert told["phase"] == "Failed"
    assert "nginx:1.27: manifest unknown" in told["message"]
    assert (seen["status"], seen["reason"], seen["message"]) == ("False", "ImagePullFailed", told["message"])
    assert (ready.status, ready.data["phase"]) == (200, "Ready")


def because(installation: Installation, name: str, reason: str) -> Any:
    """The unit as the API shows it, once it is as it is for this reason."""
    shown = installation.api.get(f"/gpu-units/{name}").data
    return shown if shown.get("reason") == reason else None


def bound_pod(installation: Installation, name: str) -> str | None:
    return next((pod.metadata.name for pod in installation.cluster.pods(name) if pod.spec.node_name), None)


def say(installation: Installation, pod: str, phase: str, state: dict[str, Any], *, ready: bool) -> None:
    """Write the status of a pod as the kubelet of its node would."""
    container = {"name": "runtime-worker", "image": "", "imageID": "", "restartCount": 0, "ready": ready}
    conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [{**container, "state": state}]}
    installation.cluster.core.patch_namespaced_pod_status(pod, INSTANCES, {"status": status})
