"""/operator/stockpools: create, read, update and delete pools of stock units."""

from typing import Final

from attrs import frozen

from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.projection import project
from gpuruntime.api.rest.jobs import JobView
from gpuruntime.api.rest.objects import ListQuery, StockNamespaceQuery
from gpuruntime.api.rest.stock_pools import CreatePoolBody, PoolView, UpdatePoolBody
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.meta import (
    FrozenDict,
    ObjectKey,
    encode,
    freeze,
    is_dns_subdomain,
)
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.pools import POOL_DELETION, POOL_UPDATE, CreatePool, pool_name
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.jobs import finished_job_view
from gpuruntime.web.resources.masking import reject_masks, view_for
from gpuruntime.web.resources.object_models import ListFilter, deleted_view, list_reply, object_fields
from gpuruntime.web.server.headers import (
    deletion_headers,
    location_header,
    read_headers,
    version_header,
    write_headers,
)
from gpuruntime.web.server.route import CONFLICT, REFUSED, STALE, Call, Idempotency, Reply, Response, Route, Scope

__all__ = ["StockPoolRoutes"]

_COLLECTION: Final = "/operator/stockpools"
_ITEM: Final = "/operator/stockpools/{name}"
_MISSING: Final = (404, "stockpool_not_found")


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


@frozen
class StockPoolRoutes:
    """The routes of /operator/stockpools."""

    service: Service

    def routes(self) -> tuple[Route, ...]:
        """All routes of pools."""
        return (
            Route(
                *("GET", _COLLECTION, self.list_pools, "List pools", Scope.READ),
                name="listStockPools",
                query=ListQuery,
                responses=(Response(200, PoolView, "A page of pools, by namespace and name.", is_list=True),),
            ),
            Route(
                *("POST", _COLLECTION, self.create, "Create a pool", Scope.OPERATOR),
                name="createStockPool",
                body=CreatePoolBody,
                responses=(
                    Response(202, JobView, "The pool is stored; its stock is being created."),
                    Response(200, JobView, "The request was sent before: the job as it is now."),
                ),
                errors=(CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("GET", _ITEM, self.get, "Get a pool", Scope.READ),
                name="getStockPool",
                query=StockNamespaceQuery,
                responses=(Response(200, PoolView, "The pool."),),
                errors=(_MISSING,),
            ),
            Route(
                *("PUT", _ITEM, self.update, "Update a pool", Scope.OPERATOR),
                name="updateStockPool",
                body=UpdatePoolBody,
                query=StockNamespaceQuery,
                responses=(Response(200, PoolView, "The pool after the update."),),
                errors=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("DELETE", _ITEM, self.delete, "Delete a pool", Scope.OPERATOR),
                name="deleteStockPool",
                query=StockNamespaceQuery,
                responses=(Response(204, None, "The pool is deleted."),),
                errors=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
        )

    async def list_pools(self, call: Call) -> Reply:
        """List pools in pages: the `next` of a page is the `cursor` of the following one."""
        matches = ListFilter.of(call.query).matches
        return await list_reply(
            self.service.pool_reads, call, matches, lambda pool: view_for(call.caller, _pool_view(pool))
        )

    async def create(self, call: Call) -> Reply:
        """Create a pool, which keeps a number of ready stock units. It lives in a stock namespace.

        The response is a job. A job that succeeded means that the pool is stored; the status of the pool says how many
        units are ready. Without a name the pool gets one derived from the operationID.
        """
        body: CreatePoolBody = call.body
        reject_masks(body)
        request = _create_request(body, call.operation_id, self.service.namespaces)
        created = await self.service.pools.create(call.operation_id, request)
        job = finished_job_view(created.performed, deleted=created.object is None)
        if created.object is None or created.performed.is_replay:
            return Reply(200, job)
        version = version_header(created.object.metadata.resource_version)
        return Reply(202, job, FrozenDict({**version, **location_header(_COLLECTION, created.object.key)}))

    async def get(self, call: Call) -> Reply:
        """Get a pool."""
        found = await self.service.pool_reads.get(self._key(call), call.at_least)
        return Reply(200, view_for(call.caller, _pool_view(found.object)), read_headers(found))

    async def update(self, call: Call) -> Reply:
        """Update a pool. Omitted fields keep their values. With If-Match, only if the pool has this ETag."""
        key, body = self._key(call), call.body
        reject_masks(body)
        request = _update_request(body, key.name, key.namespace, call.if_match or "")
        changed = await self.service.updates.update(POOL_UPDATE, call.operation_id, request)
        if changed.object is None:
            # The pool was updated, and has been deleted since.
            name, namespace, uid = key.name, key.namespace, changed.performed.result.uid
            return Reply(200, deleted_view(PoolView, name, namespace, uid, call.operation_id))
        return Reply(200, _pool_view(changed.object), write_headers(changed.object))

    async def delete(self, call: Call) -> Reply:
        """Delete a pool and its stock. Units that were claimed from it stay."""
        key = self._key(call)
        request = DeleteObject(key.name, key.namespace, resource_version=call.if_match or "")
        performed = await self.service.deletions.delete(POOL_DELETION, call.operation_id, request)
        return Reply(204, headers=await deletion_headers(self.service.pool_reads, key, performed.result.uid))

    def _key(self, call: Call) -> ObjectKey:
        query: StockNamespaceQuery = call.query
        key = ObjectKey(query.namespace or self.service.namespaces.default_stock, call.path_params["name"])
        if not is_dns_subdomain(key.name) or not self.service.pool_reads.covers(key.namespace):
            raise ObjectNotFoundError(f"pool {key}: not found")
        return key


def _create_request(body: CreatePoolBody, operation_id: str, namespaces: Namespaces) -> CreatePool:
    """The request to the service; `namespaces` are the defaults."""
    name = body.name or pool_name(body.spec_name, operation_id)
    return CreatePool(name, project(body, StockPoolSpec), body.namespace or namespaces.default_stock)


def _update_request(body: UpdatePoolBody, name: str, namespace: str, resource_version: str) -> UpdateObject:
    """The request to the service, for a pool at this version ("": any)."""
    change = freeze({"spec": encode(body)})
    return UpdateObject(name, namespace, change, resource_version=resource_version)
