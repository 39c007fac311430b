"""rbac.authorization.k8s.io/v1: Role, ClusterRole and their bindings."""

from attrs import field, frozen

from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct, wire

__all__ = [
    "AggregationRule",
    "ClusterRole",
    "ClusterRoleBinding",
    "PolicyRule",
    "Role",
    "RoleBinding",
    "RoleRef",
    "Subject",
]

GROUP = "rbac.authorization.k8s.io"


@frozen
class PolicyRule(Struct):
    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = field(default=(), metadata=wire("nonResourceURLs"))


@frozen
class AggregationRule(Struct):
    cluster_role_selectors: tuple[LabelSelector, ...] = ()


@frozen
class Subject(Struct):
    kind: str
    name: str
    namespace: str | None = None
    api_group: str | None = None


@frozen
class RoleRef(Struct):
    kind: str
    name: str
    api_group: str | None = None


@frozen
class Role(TypedObject):
    KIND = ResourceKind(GROUP, "v1", "Role", "roles", namespaced=True)

    rules: tuple[PolicyRule, ...] = ()


@frozen
class ClusterRole(TypedObject):
    KIND = ResourceKind(GROUP, "v1", "ClusterRole", "clusterroles", namespaced=False)

    rules: tuple[PolicyRule, ...] = ()
    aggregation_rule: AggregationRule | None = None


@frozen
class RoleBinding(TypedObject):
    KIND = ResourceKind(GROUP, "v1", "RoleBinding", "rolebindings", namespaced=True)

    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()


@frozen
class ClusterRoleBinding(TypedObject):
    KIND = ResourceKind(GROUP, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)

    role_ref: RoleRef
    subjects: tuple[Subject, ...] = ()
