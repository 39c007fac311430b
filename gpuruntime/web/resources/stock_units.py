"""/operator/stock-units: seed batches of stock units, read and delete single ones."""

from typing import Annotated, Final
from urllib.parse import quote

from attrs import frozen

from gpuruntime.api.envelope import Cpu, GpuType, Memory, SpecName
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.meta import FrozenDict, ObjectKey, Range, Struct, is_dns_subdomain
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.stock.delete import STOCK_DELETION
from gpuruntime.service.stock.names import LARGEST_BATCH
from gpuruntime.service.stock.seed import Envelope, SeedStock
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.jobs import JobView, job_view
from gpuruntime.web.resources.masking import view_for
from gpuruntime.web.resources.object_models import ListQuery, Namespace, StockNamespaceQuery, list_reply
from gpuruntime.web.resources.unit_models import UnitView, unit_filter, unit_view
from gpuruntime.web.server.headers import deletion_headers, read_headers, version_header
from gpuruntime.web.server.route import (
    CONFLICT,
    PREFIX,
    REFUSED,
    STALE,
    Call,
    Idempotency,
    Reply,
    Response,
    Route,
    Scope,
)

__all__ = ["SeedStockBody", "StockUnitRoutes"]

_COLLECTION: Final = "/operator/stock-units"
_ITEM: Final = "/operator/stock-units/{name}"
_MISSING: Final = (404, "stockunit_not_found")


@frozen
class SeedStockBody(Struct):
    """A batch of stock units: how many, and what each of them reserves. Stock units run no user image."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1: what claims ask for."""
    replicas: Annotated[int, Range(minimum=1, maximum=LARGEST_BATCH)]
    """Number of units to create."""
    cpu: Cpu = None
    """CPUs of each unit, such as 4 or 500m."""
    memory: Memory = None
    """Memory of each unit, such as 16Gi."""
    gpu: Annotated[int, Range(minimum=0, maximum=1024)] = 0
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs: the value of label nvidia.com/gpu.product that a node must have."""
    namespace: Namespace | None = None
    """The stock namespace to create them in. Defaults to the first stock namespace."""

    def request(self, namespaces: Namespaces) -> SeedStock:
        """The request to the service; `namespaces` are the defaults."""
        envelope = Envelope(self.spec_name, cpu=self.cpu, memory=self.memory, gpu=self.gpu, gpu_type=self.gpu_type)
        return SeedStock(envelope, self.replicas, self.namespace or namespaces.default_stock)


@frozen
class StockUnitRoutes:
    """The routes of /operator/stock-units."""

    service: Service

    def routes(self) -> tuple[Route, ...]:
        """All routes of stock units."""
        return (
            Route(
                *("GET", _COLLECTION, self.list_units, "List stock units", Scope.READ),
                name="listStockUnits",
                query=ListQuery,
                responses=(Response(200, UnitView, "A page of stock units, by namespace and name.", is_list=True),),
            ),
            Route(
                *("POST", _COLLECTION, self.seed, "Seed stock units", Scope.OPERATOR),
                name="seedStockUnits",
                body=SeedStockBody,
                responses=(
                    Response(202, JobView, "The request is recorded and being carried out."),
                    Response(200, JobView, "The request was sent before: the job as it is now."),
                ),
                errors=(CONFLICT,),
                idempotency=Idempotency.REQUIRED,
            ),
            Route(
                *("GET", _ITEM, self.get, "Get a stock unit", Scope.READ),
                name="getStockUnit",
                query=StockNamespaceQuery,
                responses=(Response(200, UnitView, "The stock unit."),),
                errors=(_MISSING,),
            ),
            Route(
                *("DELETE", _ITEM, self.delete, "Delete a stock unit", Scope.OPERATOR),
                name="deleteStockUnit",
                query=StockNamespaceQuery,
                responses=(Response(204, None, "The stock unit is deleted."),),
                errors=(_MISSING, STALE, CONFLICT, REFUSED, (409, "stock_claimed")),
                idempotency=Idempotency.ACCEPTED,
            ),
        )

    async def list_units(self, call: Call) -> Reply:
        """List stock units in pages: the `next` of a page is the `cursor` of the following one."""
        matches = unit_filter(call.query, self.service.namespaces, stock=True)
        return await list_reply(self.service.stock_reads, call, matches, lambda unit: self._view(call, unit))

    async def seed(self, call: Call) -> Reply:
        """Create a batch of stock units. The response is a job: see /operator/jobs/{operationID} for its progress.

        A job that succeeded means that all units are stored; the phase of each unit says whether it is ready. Sent
        again with the same operationID, no unit is created twice, not even one that has been claimed since.
        """
        body: SeedStockBody = call.body
        submitted = await self.service.stock.seed(call.operation_id, body.request(self.service.namespaces))
        location = {"Location": f"{PREFIX}/operator/jobs/{quote(call.operation_id, safe='')}"}
        headers = FrozenDict({**location, **version_header(submitted.operation.metadata.resource_version)})
        return Reply(200 if submitted.is_replay else 202, job_view(submitted.operation), headers)

    async def get(self, call: Call) -> Reply:
        """Get a stock unit."""
        found = await self.service.stock_reads.get(self._key(call), call.at_least)
        return Reply(200, self._view(call, found.object), read_headers(found))

    async def delete(self, call: Call) -> Reply:
        """Delete a stock unit, unless it is claimed. If it belongs to a pool, the pool creates a new one."""
        key = self._key(call)
        request = DeleteObject(key.name, key.namespace, resource_version=call.if_match or "")
        performed = await self.service.deletions.delete(STOCK_DELETION, call.operation_id, request)
        return Reply(204, headers=await deletion_headers(self.service.stock_reads, key, performed.result.uid))

    def _key(self, call: Call) -> ObjectKey:
        """The key of the stock unit in the path. Active units are not found here."""
        query: StockNamespaceQuery = call.query
        key = ObjectKey(query.namespace or self.service.namespaces.default_stock, call.path_params["name"])
        if not self.service.namespaces.is_stock(key.namespace) or not is_dns_subdomain(key.name):
            raise ObjectNotFoundError(f"stock unit {key}: not found")
        return key

    def _view(self, call: Call, unit: GPUUnit) -> UnitView:
        return view_for(call.caller, unit_view(unit, self.service.namespaces))
