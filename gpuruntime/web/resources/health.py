"""GET /health: the state of the process and the cluster, for people. Probes are /readyz and /livez."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from attrs import frozen

from gpuruntime.aio import Singleflight
from gpuruntime.api.rest.health import GpuProductView, Health
from gpuruntime.endpoints.server.route import Call, Reply, Response, Route, Scope
from gpuruntime.kube import KubeError
from gpuruntime.meta import format_seconds
from gpuruntime.service.reads.inventory import GpuTotal, InventorySnapshot

__all__ = ["ClusterProbe", "HealthRoutes", "health_of"]

# Together with the second that a TokenReview may take, it stays below the two seconds that are promised. The manager's
# own request times out a moment earlier, with a better error message.
_PROBE_SECONDS: Final = 0.95
_CACHED_SECONDS: Final = 1.0


def health_of(snapshot: InventorySnapshot, *, started: datetime, now: datetime, kube_error: str | None) -> Health:
    """The health of a snapshot; `kube_error` is "" if the API server responds, None if there is no cluster."""
    products = snapshot.products
    return Health(
        started_at=format_seconds(started),
        uptime_seconds=int((now - started).total_seconds()),
        kubernetes_connected=kube_error == "",
        node_count=len(snapshot.nodes),
        ready_node_count=sum(node.is_ready for node in snapshot.nodes),
        active_unit_count=snapshot.active_units,
        stock_unit_count=snapshot.stock_units,
        available_stock_unit_count=snapshot.ready_stock_units,
        stock_pool_count=snapshot.pools,
        total_gpu_capacity=sum(total.capacity for total in products),
        total_gpu_allocatable=sum(total.allocatable for total in products),
        gpu_products=tuple(map(_product, products)),
        cache_age_seconds=None if snapshot.age is None else round(snapshot.age, 1),
        kube_error=kube_error or None,
    )


def _product(total: GpuTotal) -> GpuProductView:
    return GpuProductView(total.product, total.nodes, total.capacity, total.allocatable)


class ClusterProbe:
    """Checks whether the API server responds, at most once a second: concurrent callers share one request."""

    def __init__(self, reach: Callable[[], Awaitable[None]]) -> None:
        self._reach = reach
        self._run = Singleflight(self._check)
        self._last = ("", float("-inf"))

    async def error(self) -> str:
        """Why the API server does not respond, "" if it does; takes at most a second."""
        error, at = self._last
        if asyncio.get_running_loop().time() - at < _CACHED_SECONDS:
            return error
        return await self._run.do()

    async def _check(self) -> str:
        error = ""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._reach()
        except KubeError as failure:
            error = str(failure)
        except TimeoutError:
            error = f"no response of the API server within {_PROBE_SECONDS:g} s"
        self._last = (error, asyncio.get_running_loop().time())
        return error


@frozen
class HealthRoutes:
    """The route of /health.

    Args:
        snapshot: takes the numbers.
        kube_error: why the API server does not respond; "" if it does, None if there is no cluster.
    """

    snapshot: Callable[[], InventorySnapshot]
    kube_error: Callable[[], Awaitable[str | None]]
    now: Callable[[], datetime]
    started: datetime

    async def health(self) -> Health:
        return health_of(self.snapshot(), started=self.started, now=self.now(), kube_error=await self.kube_error())

    async def get(self, _call: Call) -> Reply:
        """Nodes, GPUs by product, numbers of units and stock units, and the age of these numbers.

        The response is always 200, within two seconds, also while the API server is unavailable. The exception: if
        callers are authenticated by TokenReview only, callers that were not reviewed in the last two minutes get 503.
        This is not a probe; the probes are /livez and /readyz.
        """
        return Reply(200, await self.health())

    def routes(self) -> tuple[Route, ...]:
        responses = (Response(200, Health, "State of the process and the cluster."),)
        summary = "Get the health of the API and the cluster"
        return (Route("GET", "/health", self.get, summary, Scope.READ, name="getHealth", responses=responses),)
