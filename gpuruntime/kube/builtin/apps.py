"""apps/v1: Deployment, ReplicaSet."""

from attrs import field, frozen

from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdate",
]


@frozen
class RollingUpdate(Struct):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


@frozen
class DeploymentStrategy(Struct):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


@frozen
class DeploymentSpec(Struct):
    selector: LabelSelector
    template: PodTemplateSpec
    replicas: int | None = None
    strategy: DeploymentStrategy | None = None
    min_ready_seconds: int | None = None
    progress_deadline_seconds: int | None = None
    revision_history_limit: int | None = None
    paused: bool | None = None


@frozen
class DeploymentStatus(Struct):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


@frozen
class Deployment(TypedObject):
    KIND = ResourceKind("apps", "v1", "Deployment", "deployments", namespaced=True)

    spec: DeploymentSpec
    status: DeploymentStatus = field(default=DeploymentStatus())


@frozen
class ReplicaSetSpec(Struct):
    selector: LabelSelector
    template: PodTemplateSpec = field(default=PodTemplateSpec())
    replicas: int | None = None
    min_ready_seconds: int | None = None


@frozen
class ReplicaSetStatus(Struct):
    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


@frozen
class ReplicaSet(TypedObject):
    KIND = ResourceKind("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)

    spec: ReplicaSetSpec
    status: ReplicaSetStatus = field(default=ReplicaSetStatus())
