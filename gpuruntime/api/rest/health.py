"""View of /health."""

from typing import Annotated

from attrs import field, frozen

from gpuruntime.meta import Format, Struct, wire

__all__ = ["GpuProductView", "Health"]


@frozen
class GpuProductView(Struct):
    """The GPUs of one product in the cluster."""

    product: str
    """Value of node label nvidia.com/gpu.product; "unknown" for nodes without it."""
    node_count: int
    """Nodes with such GPUs."""
    capacity: int
    """GPUs on these nodes."""
    allocatable: int
    """GPUs on these nodes that are allocatable to pods."""


@frozen
class Health(Struct):
    """State of the process and the cluster."""

    started_at: Annotated[str, Format("date-time")]
    """When the process started."""
    uptime_seconds: int
    """Seconds since then."""
    kubernetes_connected: bool
    """Whether the API server responds now."""
    node_count: int
    """Nodes of the cluster."""
    ready_node_count: int
    """Nodes with condition Ready."""
    active_unit_count: int
    """Active units: units outside stock namespaces."""
    stock_unit_count: int
    """Units in stock namespaces, including claimed units and units that are not ready."""
    available_stock_unit_count: int
    """Stock units that can be claimed now."""
    stock_pool_count: int
    """Number of pools."""
    total_gpu_capacity: int = field(metadata=wire("totalGPUCapacity"))
    """GPUs of all nodes."""
    total_gpu_allocatable: int = field(metadata=wire("totalGPUAllocatable"))
    """Allocatable GPUs of all nodes."""
    gpu_products: tuple[GpuProductView, ...]
    """GPUs by product, sorted."""
    cache_age_seconds: float | None = None
    """Seconds since the caches behind these numbers last received anything from the API server. A few seconds are
    normal. Omitted before the first sync."""
    kube_error: str | None = None
    """Why the API server does not respond; omitted without a cluster."""
