"""GET /health: what a person asks first. Whether a process shall get traffic or a restart is for /readyz and /livez."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.control import Cache
from gpuruntime.kube import KubeError
from gpuruntime.kube.singleflight import Singleflight
from gpuruntime.meta import Format, Struct, format_seconds, wire
from gpuruntime.service.reads.inventory import GpuTotal, InventorySnapshot
from gpuruntime.web.server.route import Answer, Call, Reply, Route, Scope

__all__ = ["ClusterProbe", "GpuProductView", "Health", "HealthPages", "health_of", "why_not_ready"]

# With the second that the review of a token may take before, it is less than the two that are promised. The manager's
# own request gives up a moment earlier, and knows more to tell.
_PROBE_SECONDS: Final = 0.95
_REMEMBERED_SECONDS: Final = 1.0


@frozen
class GpuProductView(Struct):
    """The GPUs of one product in the cluster."""

    product: str
    """What label nvidia.com/gpu.product of the nodes says; "unknown" where it says nothing."""
    node_count: int
    """Nodes that have such GPUs."""
    capacity: int
    """GPUs on these nodes."""
    allocatable: int
    """GPUs on these nodes that pods can get."""


@frozen
class Health(Struct):
    """What the process knows of itself and of the cluster."""

    started_at: Annotated[str, Format("date-time")]
    """When the process started."""
    uptime_seconds: int
    """For how long it has run."""
    kubernetes_connected: bool
    """Whether the API server answered just now."""
    node_count: int
    """Nodes of the cluster."""
    ready_node_count: int
    """Nodes that are ready."""
    active_unit_count: int
    """Units outside of stock namespaces."""
    stock_unit_count: int
    """Units in stock namespaces, claimed and unready ones included."""
    available_stock_unit_count: int
    """Stock units that can be claimed now."""
    stock_pool_count: int
    """Pools."""
    total_gpu_capacity: int = field(metadata=wire("totalGPUCapacity"))
    """GPUs of all nodes."""
    total_gpu_allocatable: int = field(metadata=wire("totalGPUAllocatable"))
    """GPUs of all nodes that pods can get."""
    gpu_products: tuple[GpuProductView, ...]
    """The same by product, sorted."""
    cache_age_seconds: float | None = None
    """How long ago the API server was last heard of by what these figures come from: some seconds while all is well and
    nothing happens. None before the first time."""
    kube_error: str | None = None
    """Why the API server did not answer; none without a cluster."""


def health_of(taken: InventorySnapshot, *, started: datetime, now: datetime, kube_error: str | None) -> Health:
    """The answer for what was found; `kube_error` is "" if the API server answered, None if there is none to ask."""
    products = taken.products
    return Health(
        started_at=format_seconds(started),
        uptime_seconds=int((now - started).total_seconds()),
        kubernetes_connected=kube_error == "",
        node_count=len(taken.nodes),
        ready_node_count=sum(node.is_ready for node in taken.nodes),
        active_unit_count=taken.active_units,
        stock_unit_count=taken.stock_units,
        available_stock_unit_count=taken.ready_stock_units,
        stock_pool_count=taken.pools,
        total_gpu_capacity=sum(total.capacity for total in products),
        total_gpu_allocatable=sum(total.allocatable for total in products),
        gpu_products=tuple(map(_product, products)),
        cache_age_seconds=None if taken.age is None else round(taken.age, 1),
        kube_error=kube_error or None,
    )


def _product(total: GpuTotal) -> GpuProductView:
    return GpuProductView(total.product, total.nodes, total.capacity, total.allocatable)


class ClusterProbe:
    """Asks whether the API server answers: at most once a second, however many want to know."""

    def __init__(self, reach: Callable[[], Awaitable[None]]) -> None:
        self._reach = reach
        self._run = Singleflight(self._ask)
        self._told = ("", float("-inf"))

    async def error(self) -> str:
        """Why the API server does not answer, "" if it does; within a second."""
        error, at = self._told
        if asyncio.get_running_loop().time() - at < _REMEMBERED_SECONDS:
            return error
        return await self._run.join()

    async def _ask(self) -> str:
        error = ""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._reach()
        except KubeError as refusal:
            error = str(refusal)
        except TimeoutError:
            error = f"the API server did not answer within {_PROBE_SECONDS:g} s"
        self._told = (error, asyncio.get_running_loop().time())
        return error


@frozen
class HealthPages:
    """The route, over whatever knows the figures and whatever knows whether the cluster is there."""

    take: Callable[[], InventorySnapshot]
    kube_error: Callable[[], Awaitable[str | None]]
    now: Callable[[], datetime]
    started: datetime

    async def health(self) -> Health:
        return health_of(self.take(), started=self.started, now=self.now(), kube_error=await self.kube_error())

    async def get(self, _call: Call) -> Reply:
        """The cluster, its nodes and GPUs by product, the number of units and of stock units, and how old these figures
        are. Always 200 and always within two seconds, also while the API server is away, unless only that knows who
        calls: then 503 for callers whom it has not known in the last two minutes. It is no probe: /livez and /readyz
        are.
        """
        return Reply(200, await self.health())

    def routes(self) -> tuple[Route, ...]:
        answers = (Answer(200, Health, "What the process knows of itself and of the cluster."),)
        summary = "Health of the cluster and of the API"
        return (Route("GET", "/health", self.get, summary, Scope.READ, name="getHealth", answers=answers),)


def why_not_ready(cache: Cache) -> Callable[[], str]:
    """Why nobody can be served from a cache yet, "" once it has seen the cluster."""

    def reason() -> str:
        if all(informer.has_synced for informer in cache.informers):
            return ""
        errors = sorted({str(part.last_error) for one in cache.informers for part in one.health if part.last_error})
        return f"the cluster has not been seen yet: {errors[0] if errors else 'the caches are being filled'}"

    return reason
