"""The body of an update: our desired fields, with those of the server and of others carried over."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from gpuruntime.control.writing.desired_state import SHARED_MAPS, OwnershipAnnotations, inner

__all__ = ["replacement"]

Json = dict[str, Any]
Path = tuple[str, ...]

_PERSISTENT_VOLUME_CLAIM: Final = tuple(
    ("spec", name)
    for name in (
        "volumeName",
        "storageClassName",
        "volumeMode",
        "dataSource",
        "dataSourceRef",
        "volumeAttributesClassName",
    )
)
# Set by `kubectl rollout restart` in a pod template. Removing it would restart the pods once more.
_RESTART: Final = ("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt")
_POD_LABELS: Final = ("spec", "template", "metadata", "labels")
_REPLICAS: Final = ("spec", "replicas")
# Fields that the server or another controller fills in, and that an update without them would remove or that the
# server would refuse to remove. They are carried over unless they are desired.
_CARRIED: Final[Mapping[tuple[str, str], tuple[Path, ...]]] = {
    ("", "PersistentVolumeClaim"): _PERSISTENT_VOLUME_CLAIM,
    ("", "ServiceAccount"): (("secrets",), ("imagePullSecrets",)),
    ("apps", "DaemonSet"): (_RESTART,),
    ("apps", "Deployment"): (_REPLICAS, _RESTART),
    ("apps", "ReplicaSet"): (_REPLICAS,),
    ("apps", "StatefulSet"): (_REPLICAS, _RESTART),
    ("batch", "Job"): (("spec", "selector"),),
}
_WITH_NODE_PORTS: Final = frozenset({"NodePort", "LoadBalancer"})
_TOKEN: Final = "kubernetes.io/service-account-token"  # noqa: S105  # the type of a Secret


def replacement(desired: Json, live: Json, annotations: OwnershipAnnotations) -> Json:
    """The live object with our fields in it.

    Guarantees:
        UID, resource version and status are those of the live object. Labels and annotations are ours and those of
        others, without those of ours that are no longer desired. Finalizers and owner references are only added to.
        Every other field is as desired, except what the server allocates or another controller fills in, unless it is
        desired: cluster IPs, node ports, volumes, replicas, selectors and labels of jobs, the restartedAt annotation.
        Neither argument is modified.
    """
    body = deepcopy({name: value for name, value in desired.items() if name not in {"metadata", "status"}})
    if "status" in live:
        body["status"] = live["status"]
    metadata = {name: value for name, value in live["metadata"].items() if name != "managedFields"}
    ours = desired["metadata"]
    for name, key in (("finalizers", str), ("ownerReferences", _reference)):
        if ours.get(name):
            metadata[name] = _united(metadata.get(name) or [], ours[name], key)
    body["metadata"] = metadata
    for path in SHARED_MAPS:
        _share(body, path, desired, live, annotations)
    _carry(body, live)
    return body


def _share(body: Json, path: Path, desired: Json, live: Json, annotations: OwnershipAnnotations) -> None:
    ours, theirs = inner(desired, path) or {}, inner(live, path) or {}
    earlier = annotations.ours(live, path)
    entries = {name: value for name, value in theirs.items() if name not in earlier} | ours
    if inner(desired, path[:-2]) is not None and (entries or theirs):
        _put(body, path, entries)


def _united(theirs: list[Any], ours: list[Any], key: Any) -> list[Any]:
    wanted = {key(value): value for value in ours}
    kept = [wanted.pop(key(value), value) for value in theirs]
    return [*kept, *wanted.values()]


def _reference(value: Mapping[str, Any]) -> tuple[str, ...]:
    # As in set_controller: an owner has one reference, whatever its version and UID were.
    group = str(value.get("apiVersion", "")).rpartition("/")[0]
    return group, str(value.get("kind")), str(value.get("name"))


def _carry(body: Json, live: Json) -> None:
    kind = str(body.get("apiVersion", "")).rpartition("/")[0], str(body.get("kind"))
    for path in _CARRIED.get(kind, ()):
        _carry_field(body, live, path)
    match kind:
        case "", "Service":
            _carry_service(body, live)
        case "", "Pod":
            _carry_pod(body, live)
        case "batch", "Job":
            # The server labels the pods of a job, and these labels are immutable.
            if labels := inner(live, _POD_LABELS):
                _put(body, _POD_LABELS, {**labels, **(inner(body, _POD_LABELS) or {})})
        case "", "Secret" if body.get("type") == _TOKEN:
            body["data"] = {**(live.get("data") or {}), **(body.get("data") or {})}
        case "rbac.authorization.k8s.io", "ClusterRole" if "aggregationRule" in body:
            _carry_field(body, live, ("rules",))


def _carry_field(body: Json, live: Json, path: Path) -> None:
    value = inner(live, path)
    if value is not None and inner(body, path) is None:
        _put(body, path, value)


def _carry_service(body: Json, live: Json) -> None:
    spec, before = body.setdefault("spec", {}), live.get("spec") or {}
    kind = spec.get("type") or "ClusterIP"
    if kind == "ExternalName":
        return
    if not spec.get("clusterIP") and not spec.get("clusterIPs"):
        for name in ("clusterIP", "clusterIPs"):
            _carry_field(body, live, ("spec", name))
    for name in ("ipFamilies", "ipFamilyPolicy"):
        _carry_field(body, live, ("spec", name))
    if kind not in _WITH_NODE_PORTS:
        return
    if kind == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local":
        _carry_field(body, live, ("spec", "healthCheckNodePort"))
    allocated = {_port(port): port["nodePort"] for port in before.get("ports") or [] if port.get("nodePort")}
    desired = {port["nodePort"] for port in spec.get("ports") or [] if port.get("nodePort")}
    for port in spec.get("ports") or []:
        number = allocated.get(_port(port))
        if number is not None and number not in desired and not port.get("nodePort"):
            port["nodePort"] = number


def _port(port: Mapping[str, Any]) -> tuple[Any, Any]:
    return port.get("port"), port.get("protocol") or "TCP"


def _carry_pod(body: Json, live: Json) -> None:
    """A pod accepts new images, additional tolerations and a deadline; the rest is immutable."""
    desired, spec = body.get("spec") or {}, deepcopy(live.get("spec") or {})
    for name in ("containers", "initContainers"):
        images = {container["name"]: container.get("image") for container in desired.get(name) or []}
        for container in spec.get(name) or []:
            container["image"] = images.get(container["name"]) or container["image"]
    if "activeDeadlineSeconds" in desired:
        spec["activeDeadlineSeconds"] = desired["activeDeadlineSeconds"]
    missing = [wanted for wanted in desired.get("tolerations") or [] if wanted not in (spec.get("tolerations") or [])]
    if missing:
        spec["tolerations"] = [*(spec.get("tolerations") or []), *missing]
    body["spec"] = spec


def _put(body: Json, path: Path, value: Any) -> None:
    *parents, name = path
    for parent in parents:
        body = body.setdefault(parent, {})
    body[name] = value
