"""What an operator may decide about the children of units."""

from typing import Final

from attrs import field, frozen

from gpuruntime.api.namespaces import Namespaces

__all__ = ["Rendering"]

_PLACEHOLDER: Final = "busybox:1.36"


@frozen
class Rendering:
    """The operator's part of a rendering; the unit is the rest.

    A change of it reaches units that exist only as `gpuruntime.desired.pinning` allows.
    """

    namespaces: Namespaces = field(default=Namespaces())
    stock_image: str = _PLACEHOLDER
    """Image of stock units that name none. It needs a shell."""
    default_image: str = _PLACEHOLDER
    """Image of active units that name none. It needs a shell."""
    stock_priority_class: str = "gpuruntime-stock"
    """PriorityClass of stock pods: they preempt nobody, and make room for active ones."""
    active_priority_class: str = "gpuruntime-active"
    progress_deadline_seconds: int = 600
    """How long a rollout may take before it counts as stuck. Large images take minutes to pull."""
    cluster_domain: str = "cluster.local"
