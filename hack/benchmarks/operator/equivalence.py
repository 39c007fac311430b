"""Whether two contenders do the same work: the children and status of one unit, without values that differ by run."""

from collections.abc import Iterator
from typing import Any

from gpuruntime.kube.builtin.apps import Deployment
from gpuruntime.kube.builtin.core import Service
from hack.benchmarks.operator.world import COLLECTION, NAMESPACE, World, unit

__all__ = ["Form", "differences", "form_of"]

Form = dict[str, Any]
_SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


def form_of(world: World) -> Form:
    """The Deployment, Service and status of the first unit."""
    admin, name = world.access.admin(), unit(0)["metadata"]["name"]
    deployment = admin.get(f"{Deployment.KIND.path(NAMESPACE)}/unit-{name}")
    service = admin.get(f"{Service.KIND.path(NAMESPACE)}/unit-{name}")
    status = admin.get(f"{COLLECTION}/{name}")["status"]
    for address in ("clusterIP", "clusterIPs"):
        del service["spec"][address]
    return {
        "Deployment": {"metadata": _metadata(deployment), "spec": deployment["spec"]},
        "Service": {"metadata": _metadata(service), "spec": service["spec"]},
        "status": _timeless(status),
    }


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """The paths at which two forms differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from differences(one.get(name), other.get(name), f"{path}.{name}" if path else name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}[{index}]")
    elif one != other:
        yield path


def _metadata(obj: Form) -> Form:
    """Only the names of annotations are compared: their values are in each contender's own notation."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_OWN}
    owners = [{**owner, "uid": ""} for owner in metadata.get("ownerReferences", ())]
    return {**metadata, "annotations": sorted(metadata.get("annotations", ())), "ownerReferences": owners}


def _timeless(status: Any) -> Any:
    if isinstance(status, dict):
        return {
            name: "time" if name.endswith("Time") or name in {"scheduled", "started", "ready"} else _timeless(value)
            for name, value in status.items()
        }
    return [_timeless(item) for item in status] if isinstance(status, list) else status
