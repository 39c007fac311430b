"""Immutable fields of built-in kinds, so that a difference in one is reported instead of retried forever."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube.errors import InvalidError
from gpuruntime.meta.identity import ResourceKind

__all__ = ["immutable_among", "immutable_causes"]


@frozen
class _Immutable:
    """`paths` and everything below are immutable, except what is below `mutable` or matches `mutable_like`."""

    paths: tuple[str, ...]
    mutable: tuple[str, ...] = ()
    mutable_like: re.Pattern[str] | None = None

    def applies_to(self, path: str) -> bool:
        if self.mutable_like is not None and self.mutable_like.search(path):
            return False
        return _is_within(path, self.paths) and not _is_within(path, self.mutable)


_SELECTOR: Final = _Immutable(("spec.selector",))
_ROLE: Final = _Immutable(("roleRef",))
_IMMUTABLE: Final[Mapping[tuple[str, str], _Immutable]] = {
    ("", "PersistentVolumeClaim"): _Immutable(("spec",), ("spec.resources", "spec.volumeAttributesClassName")),
    ("", "Pod"): _Immutable(("spec",), ("spec.activeDeadlineSeconds", "spec.tolerations"), re.compile(r"\]\.image$")),
    ("", "Secret"): _Immutable(("type",)),
    ("apps", "DaemonSet"): _SELECTOR,
    ("apps", "Deployment"): _SELECTOR,
    ("apps", "ReplicaSet"): _SELECTOR,
    ("apps", "StatefulSet"): _Immutable(("spec.selector", "spec.serviceName", "spec.volumeClaimTemplates")),
    ("batch", "Job"): _Immutable(("spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.managedBy")),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _ROLE,
    ("rbac.authorization.k8s.io", "RoleBinding"): _ROLE,
    ("scheduling.k8s.io", "PriorityClass"): _Immutable(("value", "preemptionPolicy")),
}
_CONTENT: Final = _Immutable(("data", "binaryData", "immutable"))
_TEMPLATE: Final = _Immutable(("spec.template",))
_TEMPLATE_OF_SUSPENDED: Final = _Immutable(
    ("spec.template",),
    (
        "spec.template.metadata",
        *(f"spec.template.spec.{name}" for name in ("affinity", "nodeSelector", "schedulingGates", "tolerations")),
    ),
    re.compile(r"\]\.resources\b"),
)
_ADDRESS: Final = _Immutable(("spec.clusterIP", "spec.clusterIPs[0]"))

# The validation messages of API servers; there is no reason or code for immutable fields.
_MESSAGES: Final = (
    "immutable",
    "may not change",
    "may not be changed",
    "cannot change",
    "are forbidden",
    "may not update",
)


def immutable_among(kind: ResourceKind, live: Mapping[str, Any], paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths that are known to be immutable in the live object."""
    rules = [rule for rule in (_IMMUTABLE.get((kind.group, kind.kind)), _conditional(kind, live)) if rule is not None]
    return tuple(path for path in paths if any(rule.applies_to(path) for rule in rules))


def immutable_causes(error: InvalidError) -> tuple[str, ...]:
    """The immutable fields that a server refused to change; empty if it refused for other reasons."""
    causes = [cause for cause in error.causes if any(word in cause.message for word in _MESSAGES)]
    return tuple(dict.fromkeys(cause.field for cause in causes))


def _conditional(kind: ResourceKind, live: Mapping[str, Any]) -> _Immutable | None:
    spec = live.get("spec") or {}
    match kind.group, kind.kind:
        case "", "ConfigMap" | "Secret" if live.get("immutable"):
            return _CONTENT
        # The scheduling fields of a suspended job are mutable.
        case "batch", "Job":
            return _TEMPLATE_OF_SUSPENDED if spec.get("suspend") else _TEMPLATE
        # An address is immutable as long as the type of the service has one.
        case "", "Service" if spec.get("clusterIP"):
            return _ADDRESS
    return None


def _is_within(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith((f"{root}.", f"{root}[")) for root in roots)
