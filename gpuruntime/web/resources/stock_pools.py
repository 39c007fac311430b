"""/operator/stockpools: pools of stock units."""

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import project
from gpuruntime.api.rest.queries import FlavourQuery
from gpuruntime.api.rest.stock_pools import CreatePoolBody, PoolView, UpdatePoolBody
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.endpoints.server.route import Idempotency, Route, Scope
from gpuruntime.service.pools import POOLS, CreatePool, pool_name
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.object_models import flavour_filter, object_fields
from gpuruntime.web.resources.object_resource import Create, Delete, ObjectResource, Update, Words
from gpuruntime.web.resources.object_routes import object_routes

__all__ = ["stock_pool_routes"]

_CREATE = """\
Create a pool, which keeps a number of ready stock units. It lives in a stock namespace.

The response is a job. A job that succeeded means that the pool is stored; the status of the pool says how many units
are ready. Without a name the pool gets one derived from the operationID."""


def stock_pool_routes(service: Service) -> tuple[Route, ...]:
    """The routes of pools."""
    pools = service.of(POOLS)
    return object_routes(
        ObjectResource(
            path="/operator/stockpools",
            words=Words("pool", "pools", "StockPool"),
            objects=pools,
            query=FlavourQuery,
            matches=flavour_filter,
            view_type=PoolView,
            view=_pool_view,
            deleted_view=PoolView,
            create=Create(
                _CREATE,
                CreatePoolBody,
                lambda body, operation_id: _create_request(body, operation_id, service.namespaces),
                pools.create,
                as_job=True,
                idempotency=Idempotency.ACCEPTED,
            ),
            update=Update("Update a pool.", UpdatePoolBody),
            delete=Delete("Delete a pool and its stock. Units that were claimed from it stay.", pools.delete),
            write_scope=Scope.OPERATOR,
        )
    )


def _pool_view(pool: StockPool) -> PoolView:
    status = pool.status
    return project(
        pool.spec,
        PoolView,
        **object_fields(pool),
        available=status.available or 0,
        allocated=status.allocated or 0,
        failures=status.failures,
    )


def _create_request(body: CreatePoolBody, operation_id: str, namespaces: Namespaces) -> CreatePool:
    """The request to the service; `namespaces` are the defaults."""
    name = body.name or pool_name(body.spec_name, operation_id)
    return CreatePool(name, project(body, StockPoolSpec), body.namespace or namespaces.default_stock)
