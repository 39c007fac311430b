"""The HTTP application: every route of the product on one screen, beside the manager's own probes and metrics."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Final

from aiohttp import web
from attrs import evolve
from prometheus_client import CollectorRegistry

from gpuruntime.service.compat.machines import Machines
from gpuruntime.service.wiring import Service
from gpuruntime.web.auth.access_control import AccessControl
from gpuruntime.web.compat.stocks import StockRoutes
from gpuruntime.web.compat.vms import VMRoutes
from gpuruntime.web.openapi.docs_page import docs_page
from gpuruntime.web.openapi.swagger_pages import mount_documentation
from gpuruntime.web.resources.gpu_units import Units
from gpuruntime.web.resources.health import HealthPages
from gpuruntime.web.resources.jobs import Jobs
from gpuruntime.web.resources.stock_pools import Pools
from gpuruntime.web.resources.stock_units import StockUnits
from gpuruntime.web.server.endpoint import mount
from gpuruntime.web.server.errors import CODES, ApiError
from gpuruntime.web.server.metrics import Traffic, TrafficCollector, measure
from gpuruntime.web.server.route import Call, Handler, Reply, Route

__all__ = ["cluster_routes", "install", "machine_routes", "until_ready"]

_RETRY_SECONDS: Final = 2


def machine_routes(health: HealthPages, machines: Machines) -> tuple[Route, ...]:
    """What is served with a cluster and without one."""
    return (*health.routes(), *StockRoutes(machines).routes(), *VMRoutes(machines).routes())


def cluster_routes(service: Service) -> tuple[Route, ...]:
    """What is served with a cluster only."""
    return (
        *StockUnits(service).routes(),
        *Jobs(service).routes(),
        *Pools(service).routes(),
        *Units(service).routes(),
    )


def install(app: web.Application, routes: Sequence[Route], gate: AccessControl, registry: CollectorRegistry) -> None:
    """Serve routes and their description with an application, which may serve the manager's own pages, too.

    What callers get is counted in the registry.
    """
    traffic = Traffic()
    TrafficCollector(registry, traffic)
    measure(app, traffic)
    mount(app, routes, gate)
    mount_documentation(app, routes)
    app.router.add_get("/", docs_page)


def until_ready(routes: Sequence[Route], why_not: Callable[[], str]) -> tuple[Route, ...]:
    """The same routes, answering 503 for as long as there is a reason for it; /health tells how things are."""
    return tuple(
        route if route.path == "/health" else evolve(route, handler=_patient(route.handler, why_not))
        for route in routes
    )


def _patient(handler: Handler, why_not: Callable[[], str]) -> Handler:
    @wraps(handler)
    async def serve(call: Call) -> Reply | web.StreamResponse:
        reason = why_not()
        if reason:
            raise ApiError(503, CODES[503], reason, headers={"Retry-After": str(_RETRY_SECONDS)})
        return await handler(call)

    return serve
