"""The HTTP application: all routes of the product, beside the manager's own probes and metrics."""

from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from gpuruntime.bus import Bus
from gpuruntime.endpoints.auth.access_control import AccessControl
from gpuruntime.endpoints.server.endpoint import mount
from gpuruntime.endpoints.server.metrics import RequestMetrics, RequestMetricsCollector, instrument
from gpuruntime.endpoints.server.route import Route
from gpuruntime.service.compat.machines import Machines
from gpuruntime.service.wiring import Service
from gpuruntime.web.compat.stocks import StockRoutes
from gpuruntime.web.compat.vms import VMRoutes
from gpuruntime.web.openapi.swagger_ui import mount_documentation
from gpuruntime.web.resources.functions import function_routes
from gpuruntime.web.resources.gpu_storages import gpu_storage_routes
from gpuruntime.web.resources.gpu_units import gpu_unit_routes
from gpuruntime.web.resources.health import HealthRoutes
from gpuruntime.web.resources.jobs import job_routes
from gpuruntime.web.resources.stock_pools import stock_pool_routes
from gpuruntime.web.resources.stock_units import stock_unit_routes

__all__ = ["cluster_routes", "install", "machine_routes"]

_RESOURCES: Final[tuple[Callable[[Service], tuple[Route, ...]], ...]] = (
    stock_unit_routes,
    job_routes,
    stock_pool_routes,
    gpu_unit_routes,
    gpu_storage_routes,
)


def machine_routes(health: HealthRoutes, machines: Machines) -> tuple[Route, ...]:
    """The routes that work without a cluster, too: /health, /stocks and /vms."""
    return (*health.routes(), *StockRoutes(machines).routes(), *VMRoutes(machines).routes())


def cluster_routes(service: Service, bus: Bus | None = None) -> tuple[Route, ...]:
    """The routes that need a cluster; without a bus, those that need NATS too answer 503."""
    return (*(route for routes in _RESOURCES for route in routes(service)), *function_routes(service, bus))


def install(app: web.Application, routes: Sequence[Route], access: AccessControl, registry: CollectorRegistry) -> None:
    """Serve routes, their OpenAPI document and Swagger UI, and export request metrics to the registry.

    The application may serve the manager's own pages as well.
    """
    metrics = RequestMetrics()
    RequestMetricsCollector(registry, metrics)
    instrument(app, metrics)
    mount(app, routes, access)
    mount_documentation(app, routes)
