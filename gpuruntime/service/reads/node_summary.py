"""Nodes as everybody in a process sees them: one cache, in which little is kept of each."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.envelope import GPU_PRODUCT
from gpuruntime.control import Cache, Informer, projected
from gpuruntime.kube.builtin.nodes import Node
from gpuruntime.meta import QuantityError, parse_quantity

__all__ = ["NodeSummary", "summarize_node", "watch_nodes"]

_GPUS: Final = "nvidia.com/gpu"
_NANO: Final = 10**9


@frozen
class NodeSummary:
    """Whether a node is ready, what it says if it is not, and the GPUs that it has."""

    is_ready: bool
    reason: str = ""
    message: str = ""
    product: str = ""
    capacity: int = 0
    allocatable: int = 0


def summarize_node(raw: Mapping[str, Any]) -> NodeSummary:
    """The summary of a node as it is on the wire; one without a Ready condition was never heard of.

    A number of GPUs that is no number counts as none.
    """
    status = raw.get("status") or {}
    conditions = status.get("conditions") or ()
    ready: Mapping[str, Any] = next((condition for condition in conditions if condition["type"] == "Ready"), {})
    is_ready = ready.get("status") == "True"
    return NodeSummary(
        is_ready=is_ready,
        reason="" if is_ready else ready.get("reason") or "",
        message="" if is_ready else ready.get("message") or "",
        product=(raw["metadata"].get("labels") or {}).get(GPU_PRODUCT, ""),
        capacity=_count(status.get("capacity")),
        allocatable=_count(status.get("allocatable")),
    )


def watch_nodes(cache: Cache) -> Informer[NodeSummary]:
    """The informer of nodes that reconcilers and use cases share."""
    return cache.informer(projected(Node.KIND, summarize_node))


def _count(resources: Mapping[str, Any] | None) -> int:
    try:
        return parse_quantity(str((resources or {}).get(_GPUS, 0))).nanos // _NANO
    except QuantityError:
        return 0
