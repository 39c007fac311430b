"""The status reporter: logs the state of the runtime at an interval."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from attrs import frozen

from gpuruntime.api.rest.health import Health

__all__ = ["StatusReporter"]

_LOG = logging.getLogger(__name__)


@frozen
class StatusReporter:
    """Logs the state of the runtime every `seconds`, first after the first interval."""

    health: Callable[[], Awaitable[Health]]
    seconds: float

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await asyncio.sleep(self.seconds)
            report(await self.health())


def report(health: Health) -> None:
    """Log one line; a warning if the Kubernetes API server does not answer."""
    fields = {
        "kubernetes_connected": health.kubernetes_connected,
        "nodes": health.node_count,
        "ready_nodes": health.ready_node_count,
        "gpus": health.total_gpu_capacity,
        "active_units": health.active_unit_count,
        "stock_units": health.stock_unit_count,
        "available_stock_units": health.available_stock_unit_count,
        "cache_age_seconds": health.cache_age_seconds,
    }
    if health.kube_error is None:
        _LOG.info("runtime status", extra=fields)
    else:
        _LOG.warning("runtime status", extra={**fields, "error": health.kube_error})
