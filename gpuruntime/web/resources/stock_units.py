"""/operator/stock-units: stock units, which are seeded in batches."""

from functools import partial
from urllib.parse import quote

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import project
from gpuruntime.api.rest.gpu_units import UnitView
from gpuruntime.api.rest.jobs import JobView
from gpuruntime.api.rest.queries import FlavourQuery
from gpuruntime.api.rest.stock_units import SeedStockBody
from gpuruntime.endpoints.server.headers import version_header
from gpuruntime.endpoints.server.route import CONFLICT, PREFIX, Call, Idempotency, Reply, Response, Route, Scope
from gpuruntime.meta import FrozenDict
from gpuruntime.service.stock.delete import STOCK_UNITS
from gpuruntime.service.stock.seed import SeedStock
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.jobs import job_view
from gpuruntime.web.resources.object_models import flavour_filter
from gpuruntime.web.resources.object_resource import Delete, ObjectResource, Words
from gpuruntime.web.resources.object_routes import object_routes
from gpuruntime.web.resources.unit_models import STOCK, unit_view

__all__ = ["seed_request", "stock_unit_routes"]

_PATH = "/operator/stock-units"
_DELETE = "Delete a stock unit, unless it is claimed. If it belongs to a pool, the pool creates a new one."


def stock_unit_routes(service: Service) -> tuple[Route, ...]:
    """The routes of stock units."""
    stock = service.of(STOCK_UNITS)
    resource = ObjectResource(
        path=_PATH,
        words=Words("stock unit", "stock units", "StockUnit"),
        objects=stock,
        query=FlavourQuery,
        matches=flavour_filter,
        view_type=UnitView,
        view=lambda unit: unit_view(unit, service.namespaces),
        deleted_view=partial(UnitView, lifecycle=STOCK),
        delete=Delete(_DELETE, stock.delete, errors=((409, "stock_claimed"),)),
        write_scope=Scope.OPERATOR,
    )
    return (*object_routes(resource), _seed_route(service))


def _seed_route(service: Service) -> Route:
    async def seed(call: Call) -> Reply:
        """Create a batch of stock units. The response is a job: see /operator/jobs/{operationID} for its progress.

        A job that succeeded means that all units are stored; the phase of each unit says whether it is ready. Sent
        again with the same operationID, no unit is created twice, not even one that has been claimed since.
        """
        body: SeedStockBody = call.body
        submitted = await service.stock.seed(call.operation_id, seed_request(body, service.namespaces))
        location = {"Location": f"{PREFIX}/operator/jobs/{quote(call.operation_id, safe='')}"}
        headers = FrozenDict({**location, **version_header(submitted.operation.metadata.resource_version)})
        return Reply(200 if submitted.is_replay else 202, job_view(submitted.operation), headers)

    return Route(
        *("POST", _PATH, seed, "Seed stock units", Scope.OPERATOR),
        name="seedStockUnits",
        body=SeedStockBody,
        responses=(
            Response(202, JobView, "The request is recorded and being carried out."),
            Response(200, JobView, "The request was sent before: the job as it is now."),
        ),
        errors=(CONFLICT,),
        idempotency=Idempotency.REQUIRED,
    )


def seed_request(body: SeedStockBody, namespaces: Namespaces) -> SeedStock:
    """The request to the service; `namespaces` are the defaults."""
    return SeedStock(project(body, Reservation), body.replicas, body.namespace or namespaces.default_stock)
