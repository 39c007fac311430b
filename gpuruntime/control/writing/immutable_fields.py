"""Which fields the API server does not let anybody change, so that we can say so instead of trying for ever."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.kube.errors import InvalidError
from gpuruntime.meta.identity import ResourceKind

__all__ = ["immutable_among", "immutable_causes"]


@frozen
class _Fixed:
    """What is at or below `paths` cannot change, but for what is at or below `but` or looks like `but_like`."""

    paths: tuple[str, ...]
    but: tuple[str, ...] = ()
    but_like: re.Pattern[str] | None = None

    def holds(self, path: str) -> bool:
        if self.but_like is not None and self.but_like.search(path):
            return False
        return _is_within(path, self.paths) and not _is_within(path, self.but)


_SELECTOR: Final = _Fixed(("spec.selector",))
_ROLE: Final = _Fixed(("roleRef",))
_FIXED: Final[Mapping[tuple[str, str], _Fixed]] = {
    ("", "PersistentVolumeClaim"): _Fixed(("spec",), ("spec.resources", "spec.volumeAttributesClassName")),
    ("", "Pod"): _Fixed(("spec",), ("spec.activeDeadlineSeconds", "spec.tolerations"), re.compile(r"\]\.image$")),
    ("", "Secret"): _Fixed(("type",)),
    ("apps", "DaemonSet"): _SELECTOR,
    ("apps", "Deployment"): _SELECTOR,
    ("apps", "ReplicaSet"): _SELECTOR,
    ("apps", "StatefulSet"): _Fixed(("spec.selector", "spec.serviceName", "spec.volumeClaimTemplates")),
    ("batch", "Job"): _Fixed(("spec.selector", "spec.completionMode", "spec.podFailurePolicy", "spec.managedBy")),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _ROLE,
    ("rbac.authorization.k8s.io", "RoleBinding"): _ROLE,
    ("scheduling.k8s.io", "PriorityClass"): _Fixed(("value", "preemptionPolicy")),
}
_CONTENT: Final = _Fixed(("data", "binaryData", "immutable"))
_TEMPLATE: Final = _Fixed(("spec.template",))
_TEMPLATE_OF_SUSPENDED: Final = _Fixed(
    ("spec.template",),
    (
        "spec.template.metadata",
        *(f"spec.template.spec.{name}" for name in ("affinity", "nodeSelector", "schedulingGates", "tolerations")),
    ),
    re.compile(r"\]\.resources\b"),
)
_ADDRESS: Final = _Fixed(("spec.clusterIP", "spec.clusterIPs[0]"))

# How API servers say it, in the words of their validation; there is no reason or code for it.
_WORDS: Final = (
    "immutable",
    "may not change",
    "may not be changed",
    "cannot change",
    "are forbidden",
    "may not update",
)


def immutable_among(kind: ResourceKind, live: Mapping[str, Any], paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths that cannot be changed in the live object, as far as it is known without asking."""
    rules = [rule for rule in (_FIXED.get((kind.group, kind.kind)), _conditional(kind, live)) if rule is not None]
    return tuple(path for path in paths if any(rule.holds(path) for rule in rules))


def immutable_causes(error: InvalidError) -> tuple[str, ...]:
    """The fields that a server refused to change, none if it had other reasons."""
    causes = [cause for cause in error.causes if any(word in cause.message for word in _WORDS)]
    return tuple(dict.fromkeys(cause.field for cause in causes))


def _conditional(kind: ResourceKind, live: Mapping[str, Any]) -> _Fixed | None:
    spec = live.get("spec") or {}
    match kind.group, kind.kind:
        case "", "ConfigMap" | "Secret" if live.get("immutable"):
            return _CONTENT
        # A job that does not run yet may still be told where.
        case "batch", "Job":
            return _TEMPLATE_OF_SUSPENDED if spec.get("suspend") else _TEMPLATE
        # An address stays for as long as the type has one.
        case "", "Service" if spec.get("clusterIP"):
            return _ADDRESS
    return None


def _is_within(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)
