"""Pools of stock: created, read, changed and deleted."""

from typing import Final

from attrs import frozen

from gpuruntime.meta import FrozenDict, ObjectKey, is_dns_subdomain
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.delete import POOL_REMOVAL, RemoveObject
from gpuruntime.service.pools import POOL_CHANGE
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.job_views import JobView, finished_job_view
from gpuruntime.web.resources.list_queries import ListQuery, StockQuery, after_cursor, pool_filter
from gpuruntime.web.resources.pool_bodies import CreatePoolBody, UpdatePoolBody
from gpuruntime.web.resources.pool_views import PoolView, gone_pool, pool_view
from gpuruntime.web.server.masking import refuse_masks, shown_to
from gpuruntime.web.server.reply_headers import listed, location, of_deletion, of_seen, of_written, shown
from gpuruntime.web.server.route import CONFLICT, REFUSED, STALE, Answer, Call, Idempotency, Reply, Route, Scope

__all__ = ["Pools"]

_COLLECTION: Final = "/operator/stockpools"
_ITEM: Final = "/operator/stockpools/{name}"
_MISSING: Final = (404, "stockpool_not_found")


@frozen
class Pools:
    """The handlers of /operator/stockpools."""

    service: Service

    def routes(self) -> tuple[Route, ...]:
        """All routes of pools."""
        return (
            Route(
                *("GET", _COLLECTION, self.list_pools, "List pools", Scope.READ),
                name="listStockPools",
                query=ListQuery,
                answers=(Answer(200, PoolView, "A page of pools, by namespace and name.", is_list=True),),
            ),
            Route(
                *("POST", _COLLECTION, self.create, "Create a pool", Scope.OPERATOR),
                name="createStockPool",
                body=CreatePoolBody,
                answers=(
                    Answer(202, JobView, "The pool is stored; its stock is being made."),
                    Answer(200, JobView, "The request was sent before: the job as it is now."),
                ),
                refusals=(CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("GET", _ITEM, self.get, "Get a pool", Scope.READ),
                name="getStockPool",
                query=StockQuery,
                answers=(Answer(200, PoolView, "The pool."),),
                refusals=(_MISSING,),
            ),
            Route(
                *("PUT", _ITEM, self.update, "Change a pool", Scope.OPERATOR),
                name="updateStockPool",
                body=UpdatePoolBody,
                query=StockQuery,
                answers=(Answer(200, PoolView, "The pool after the change."),),
                refusals=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("DELETE", _ITEM, self.delete, "Delete a pool", Scope.OPERATOR),
                name="deleteStockPool",
                query=StockQuery,
                answers=(Answer(204, None, "The pool is deleted."),),
                refusals=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
        )

    async def list_pools(self, call: Call) -> Reply:
        """The pools that match, page by page: `next` of a page is the `cursor` of the following one."""
        query: ListQuery = call.query
        page = await self.service.pool_reads.page(
            pool_filter(query),
            limit=query.limit,
            namespace=query.namespace,
            after=after_cursor(query.cursor),
            at_least=call.at_least,
        )
        return listed(page, lambda pool: shown_to(call.caller, pool_view(pool)))

    async def create(self, call: Call) -> Reply:
        """Create a pool, which keeps a number of ready stock units. It lives in a stock namespace.

        The answer is the job: that it succeeded means that the pool is stored, and its status says how full it is.
        Without a name the pool gets one that follows from the operationID.
        """
        body: CreatePoolBody = call.body
        refuse_masks(body)
        request = body.request(call.operation_id, self.service.namespaces)
        made = await self.service.pools.create(call.operation_id, request)
        job = finished_job_view(made.performed, gone=made.object is None)
        if made.object is None or made.performed.is_replay:
            return Reply(200, job)
        version = shown(made.object.metadata.resource_version)
        return Reply(202, job, FrozenDict({**version, **location(_COLLECTION, made.object.key)}))

    async def get(self, call: Call) -> Reply:
        """The pool."""
        seen = await self.service.pool_reads.get(self._key(call), call.at_least)
        return Reply(200, shown_to(call.caller, pool_view(seen.object)), of_seen(seen))

    async def update(self, call: Call) -> Reply:
        """Change a pool. What is left out stays as it is. With If-Match, only in the state with this ETag."""
        key, body = self._key(call), call.body
        refuse_masks(body)
        request = body.request(key.name, key.namespace, call.if_match or "")
        changed = await self.service.changes.change(POOL_CHANGE, call.operation_id, request)
        if changed.object is None:
            return Reply(200, gone_pool(key.name, key.namespace, changed.performed.result.uid, call.operation_id))
        return Reply(200, pool_view(changed.object), of_written(changed.object))

    async def delete(self, call: Call) -> Reply:
        """Delete a pool and its stock, but not what was claimed."""
        key = self._key(call)
        request = RemoveObject(key.name, key.namespace, resource_version=call.if_match or "")
        performed = await self.service.removals.remove(POOL_REMOVAL, call.operation_id, request)
        return Reply(204, headers=await of_deletion(self.service.pool_reads, key, performed.result.uid))

    def _key(self, call: Call) -> ObjectKey:
        query: StockQuery = call.query
        key = ObjectKey(query.namespace or self.service.namespaces.default_stock, call.names["name"])
        if not is_dns_subdomain(key.name) or not self.service.pool_reads.covers(key.namespace):
            raise ObjectNotFoundError(f"pool {key}: found none of this name")
        return key
