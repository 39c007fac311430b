"""Stock: batches of units seeded, single ones read and deleted."""

from typing import Final
from urllib.parse import quote

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.meta import FrozenDict, ObjectKey, is_dns_subdomain
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.delete import STOCK_REMOVAL, RemoveObject
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.job_views import JobView, job_view
from gpuruntime.web.resources.list_queries import ListQuery, StockQuery, after_cursor, unit_filter
from gpuruntime.web.resources.unit_bodies import SeedStockBody
from gpuruntime.web.resources.unit_views import UnitView, unit_view
from gpuruntime.web.server.masking import shown_to
from gpuruntime.web.server.reply_headers import listed, of_deletion, of_seen, shown
from gpuruntime.web.server.route import CONFLICT, PREFIX, REFUSED, STALE, Answer, Call, Idempotency, Reply, Route, Scope

__all__ = ["StockUnits"]

_COLLECTION: Final = "/operator/stock-units"
_ITEM: Final = "/operator/stock-units/{name}"
_MISSING: Final = (404, "stockunit_not_found")


@frozen
class StockUnits:
    """The handlers of /operator/stock-units."""

    service: Service

    def routes(self) -> tuple[Route, ...]:
        """All routes of stock units."""
        return (
            Route(
                *("GET", _COLLECTION, self.list_units, "List stock units", Scope.READ),
                name="listStockUnits",
                query=ListQuery,
                answers=(Answer(200, UnitView, "A page of stock units, by namespace and name.", is_list=True),),
            ),
            Route(
                *("POST", _COLLECTION, self.seed, "Seed stock units", Scope.OPERATOR),
                name="seedStockUnits",
                body=SeedStockBody,
                answers=(
                    Answer(202, JobView, "The request is recorded, and being carried out."),
                    Answer(200, JobView, "The request was sent before: the job as it is now."),
                ),
                refusals=(CONFLICT,),
                idempotency=Idempotency.REQUIRED,
            ),
            Route(
                *("GET", _ITEM, self.get, "Get a stock unit", Scope.READ),
                name="getStockUnit",
                query=StockQuery,
                answers=(Answer(200, UnitView, "The stock unit."),),
                refusals=(_MISSING,),
            ),
            Route(
                *("DELETE", _ITEM, self.delete, "Delete a stock unit", Scope.OPERATOR),
                name="deleteStockUnit",
                query=StockQuery,
                answers=(Answer(204, None, "The stock unit is deleted."),),
                refusals=(_MISSING, STALE, CONFLICT, REFUSED, (409, "stock_claimed")),
                idempotency=Idempotency.ACCEPTED,
            ),
        )

    async def list_units(self, call: Call) -> Reply:
        """The stock units that match, page by page: `next` of a page is the `cursor` of the following one."""
        query: ListQuery = call.query
        page = await self.service.stock_reads.page(
            unit_filter(query, self.service.namespaces, stock=True),
            limit=query.limit,
            namespace=query.namespace,
            after=after_cursor(query.cursor),
            at_least=call.at_least,
        )
        return listed(page, lambda unit: self._view(call, unit))

    async def seed(self, call: Call) -> Reply:
        """Make a batch of stock units. The answer is the job: see /operator/jobs/{operationID} for its progress.

        A job that succeeded means that all units are stored; the phase of each says whether it is ready. Sent again
        with the same operationID, nothing is made a second time, also not what was claimed meanwhile.
        """
        body: SeedStockBody = call.body
        submitted = await self.service.stock.seed(call.operation_id, body.request(self.service.namespaces))
        where = {"Location": f"{PREFIX}/operator/jobs/{quote(call.operation_id, safe='')}"}
        headers = FrozenDict({**where, **shown(submitted.operation.metadata.resource_version)})
        return Reply(200 if submitted.is_replay else 202, job_view(submitted.operation), headers)

    async def get(self, call: Call) -> Reply:
        """The stock unit."""
        seen = await self.service.stock_reads.get(self._key(call), call.at_least)
        return Reply(200, self._view(call, seen.object), of_seen(seen))

    async def delete(self, call: Call) -> Reply:
        """Delete a stock unit, unless it is being handed out. A pool makes a new one in its place."""
        key = self._key(call)
        request = RemoveObject(key.name, key.namespace, resource_version=call.if_match or "")
        performed = await self.service.removals.remove(STOCK_REMOVAL, call.operation_id, request)
        return Reply(204, headers=await of_deletion(self.service.stock_reads, key, performed.result.uid))

    def _key(self, call: Call) -> ObjectKey:
        """Which stock unit is meant; active ones are not to be found here."""
        query: StockQuery = call.query
        key = ObjectKey(query.namespace or self.service.namespaces.default_stock, call.names["name"])
        if not self.service.namespaces.is_stock(key.namespace) or not is_dns_subdomain(key.name):
            raise ObjectNotFoundError(f"stock unit {key}: found none of this name")
        return key

    def _view(self, call: Call, unit: GPUUnit) -> UnitView:
        return shown_to(call.caller, unit_view(unit, self.service.namespaces))
