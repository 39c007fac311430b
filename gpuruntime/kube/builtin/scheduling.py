"""scheduling.k8s.io/v1: PriorityClass."""

from attrs import frozen

from gpuruntime.meta.identity import ResourceKind
from gpuruntime.meta.objects import TypedObject

__all__ = ["PriorityClass"]


@frozen
class PriorityClass(TypedObject):
    KIND = ResourceKind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)

    value: int
    global_default: bool | None = None
    preemption_policy: str | None = None
    description: str | None = None
