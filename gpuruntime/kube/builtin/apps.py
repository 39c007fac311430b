"""apps/v1: DaemonSet, Deployment, ReplicaSet, StatefulSet."""

from attrs import field, frozen

from gpuruntime.kube.builtin.pods import PodTemplateSpec
from gpuruntime.kube.builtin.volumes import PersistentVolumeClaimSpec
from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import ObjectMeta, TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "ClaimRetentionPolicy",
    "DaemonSet",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "DaemonSetUpdateStrategy",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdate",
    "StatefulSet",
    "StatefulSetOrdinals",
    "StatefulSetRollingUpdate",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StatefulSetUpdateStrategy",
    "VolumeClaimTemplate",
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


@frozen
class StatefulSetRollingUpdate(Struct):
    """Pods with an ordinal of at least `partition` are updated."""

    partition: int | None = None
    max_unavailable: int | str | None = None


@frozen
class StatefulSetUpdateStrategy(Struct):
    type: str | None = None
    rolling_update: StatefulSetRollingUpdate | None = None


@frozen
class StatefulSetOrdinals(Struct):
    start: int | None = None


@frozen
class ClaimRetentionPolicy(Struct):
    """What happens to the PersistentVolumeClaims: Retain or Delete."""

    when_deleted: str | None = None
    when_scaled: str | None = None


@frozen
class VolumeClaimTemplate(Struct):
    """Each pod gets a PersistentVolumeClaim NAME-POD. The server adds the type of the template and a status."""

    metadata: ObjectMeta
    spec: PersistentVolumeClaimSpec = field(default=PersistentVolumeClaimSpec())


@frozen
class StatefulSetSpec(Struct):
    selector: LabelSelector
    template: PodTemplateSpec
    service_name: str | None = None
    replicas: int | None = None
    volume_claim_templates: tuple[VolumeClaimTemplate, ...] = ()
    pod_management_policy: str | None = None
    update_strategy: StatefulSetUpdateStrategy | None = None
    ordinals: StatefulSetOrdinals | None = None
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy | None = None
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None


@frozen
class StatefulSetStatus(Struct):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()


@frozen
class StatefulSet(TypedObject):
    KIND = ResourceKind("apps", "v1", "StatefulSet", "statefulsets", namespaced=True)

    spec: StatefulSetSpec
    status: StatefulSetStatus = field(default=StatefulSetStatus())


@frozen
class DaemonSetUpdateStrategy(Struct):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


@frozen
class DaemonSetSpec(Struct):
    selector: LabelSelector
    template: PodTemplateSpec
    update_strategy: DaemonSetUpdateStrategy | None = None
    min_ready_seconds: int | None = None
    revision_history_limit: int | None = None


@frozen
class DaemonSetStatus(Struct):
    """Numbers of nodes: those that should run the pod, those that do, and those that run it but should not."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    number_misscheduled: int = 0
    conditions: tuple[Condition, ...] = ()


@frozen
class DaemonSet(TypedObject):
    KIND = ResourceKind("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)

    spec: DaemonSetSpec
    status: DaemonSetStatus = field(default=DaemonSetStatus())
