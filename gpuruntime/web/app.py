"""The HTTP application: all routes of the product, beside the manager's own probes and metrics."""

from collections.abc import Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry

from gpuruntime.service.compat.machines import Machines
from gpuruntime.service.wiring import Service
from gpuruntime.web.auth.access_control import AccessControl
from gpuruntime.web.compat.stocks import StockRoutes
from gpuruntime.web.compat.vms import VMRoutes
from gpuruntime.web.openapi.swagger_ui import mount_documentation
from gpuruntime.web.resources.gpu_units import GPUUnitRoutes
from gpuruntime.web.resources.health import HealthRoutes
from gpuruntime.web.resources.jobs import JobRoutes
from gpuruntime.web.resources.stock_pools import StockPoolRoutes
from gpuruntime.web.resources.stock_units import StockUnitRoutes
from gpuruntime.web.server.endpoint import mount
from gpuruntime.web.server.metrics import RequestMetrics, RequestMetricsCollector, instrument
from gpuruntime.web.server.route import Route

__all__ = ["cluster_routes", "install", "machine_routes"]


def machine_routes(health: HealthRoutes, machines: Machines) -> tuple[Route, ...]:
    """The routes that work without a cluster, too: /health, /stocks and /vms."""
    return (*health.routes(), *StockRoutes(machines).routes(), *VMRoutes(machines).routes())


def cluster_routes(service: Service) -> tuple[Route, ...]:
    """The routes that need a cluster."""
    return (
        *StockUnitRoutes(service).routes(),
        *JobRoutes(service).routes(),
        *StockPoolRoutes(service).routes(),
        *GPUUnitRoutes(service).routes(),
    )


def install(app: web.Application, routes: Sequence[Route], access: AccessControl, registry: CollectorRegistry) -> None:
    """Serve routes, their OpenAPI document and Swagger UI, and export request metrics to the registry.

    The application may serve the manager's own pages as well.
    """
    metrics = RequestMetrics()
    RequestMetricsCollector(registry, metrics)
    instrument(app, metrics)
    mount(app, routes, access)
    mount_documentation(app, routes)
