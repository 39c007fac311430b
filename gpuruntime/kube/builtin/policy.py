"""policy/v1: PodDisruptionBudget."""

from attrs import field, frozen

from gpuruntime.meta.conditions import Condition
from gpuruntime.meta.frozen_mapping import EMPTY, FrozenDict
from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.label_selectors import LabelSelector
from gpuruntime.meta.objects import TypedObject
from gpuruntime.meta.structs import Struct

__all__ = ["PodDisruptionBudget", "PodDisruptionBudgetSpec", "PodDisruptionBudgetStatus"]


@frozen
class PodDisruptionBudgetSpec(Struct):
    """One limit, as a number or a percentage of the pods. An empty selector selects all pods of the namespace."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


@frozen
class PodDisruptionBudgetStatus(Struct):
    """`disrupted_pods` maps pods whose eviction was granted to the time of the grant."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: FrozenDict[str, str] = field(default=EMPTY)
    conditions: tuple[Condition, ...] = ()


@frozen
class PodDisruptionBudget(TypedObject):
    KIND = ResourceKind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", namespaced=True)

    spec: PodDisruptionBudgetSpec = field(default=PodDisruptionBudgetSpec())
    status: PodDisruptionBudgetStatus = field(default=PodDisruptionBudgetStatus())
