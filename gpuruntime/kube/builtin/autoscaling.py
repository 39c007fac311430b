"""autoscaling/v2: HorizontalPodAutoscaler."""

from attrs import field, frozen

from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = [
    "ContainerResourceMetricSource",
    "ExternalMetricSource",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerBehavior",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "MetricIdentifier",
    "MetricSpec",
    "MetricTarget",
    "ObjectMetricSource",
    "PodsMetricSource",
    "ResourceMetricSource",
    "ScaleTarget",
    "ScalingPolicy",
    "ScalingRules",
]


@frozen
class ScaleTarget(Struct):
    kind: str
    name: str
    api_version: str | None = None


@frozen
class MetricIdentifier(Struct):
    name: str
    selector: LabelSelector | None = None


@frozen
class MetricTarget(Struct):
    """`type` is Utilization, Value or AverageValue, and selects the field that applies."""

    type: str
    average_utilization: int | None = None
    average_value: int | str | None = None
    value: int | str | None = None


@frozen
class ResourceMetricSource(Struct):
    name: str
    target: MetricTarget


@frozen
class ContainerResourceMetricSource(Struct):
    container: str
    name: str
    target: MetricTarget


@frozen
class PodsMetricSource(Struct):
    metric: MetricIdentifier
    target: MetricTarget


@frozen
class ObjectMetricSource(Struct):
    described_object: ScaleTarget
    metric: MetricIdentifier
    target: MetricTarget


@frozen
class ExternalMetricSource(Struct):
    metric: MetricIdentifier
    target: MetricTarget


@frozen
class MetricSpec(Struct):
    """`type` is Resource, ContainerResource, Pods, Object or External, and selects the field that applies."""

    type: str
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    pods: PodsMetricSource | None = None
    object: ObjectMetricSource | None = None
    external: ExternalMetricSource | None = None


@frozen
class ScalingPolicy(Struct):
    type: str
    value: int
    period_seconds: int


@frozen
class ScalingRules(Struct):
    policies: tuple[ScalingPolicy, ...] = ()
    select_policy: str | None = None
    stabilization_window_seconds: int | None = None


@frozen
class HorizontalPodAutoscalerBehavior(Struct):
    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None


@frozen
class HorizontalPodAutoscalerSpec(Struct):
    scale_target_ref: ScaleTarget
    max_replicas: int
    min_replicas: int | None = None
    metrics: tuple[MetricSpec, ...] = ()
    behavior: HorizontalPodAutoscalerBehavior | None = None


@frozen
class HorizontalPodAutoscalerStatus(Struct):
    observed_generation: int = 0
    current_replicas: int = 0
    desired_replicas: int = 0
    last_scale_time: str | None = None
    conditions: tuple[Condition, ...] = ()


@frozen
class HorizontalPodAutoscaler(TypedObject):
    KIND = ResourceKind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True)

    spec: HorizontalPodAutoscalerSpec
    status: HorizontalPodAutoscalerStatus = field(default=HorizontalPodAutoscalerStatus())
