"""/operator/stockpools: create, read, update and delete pools of stock units."""

from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.api.envelope import Cpu, GpuCount, GpuType, Image, Memory, SpecName
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.placement import PullSecret, UnitToleration
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import (
    EMPTY,
    Atomic,
    FrozenDict,
    Items,
    Length,
    MapOf,
    ObjectKey,
    Properties,
    Range,
    Struct,
    encode,
    freeze,
    is_dns_subdomain,
)
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.pools import POOL_DELETION, POOL_UPDATE, CreatePool, pool_name
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.jobs import JobView, finished_job_view
from gpuruntime.web.resources.masking import reject_masks, view_for
from gpuruntime.web.resources.object_models import (
    ListFilter,
    ListQuery,
    Name,
    Namespace,
    ObjectView,
    StockNamespaceQuery,
    list_reply,
    object_fields,
)
from gpuruntime.web.server.headers import (
    deletion_headers,
    location_header,
    read_headers,
    version_header,
    write_headers,
)
from gpuruntime.web.server.route import CONFLICT, REFUSED, STALE, Call, Idempotency, Reply, Response, Route, Scope

__all__ = ["CreatePoolBody", "PoolView", "StockPoolRoutes", "UpdatePoolBody"]

_COLLECTION: Final = "/operator/stockpools"
_ITEM: Final = "/operator/stockpools/{name}"
_MISSING: Final = (404, "stockpool_not_found")
_Replicas = Annotated[int, Range(minimum=0, maximum=10000)]
_RuntimeClass = Annotated[str | None, Length(minimum=1, maximum=253)]


@frozen
class CreatePoolBody(Struct):
    """A pool that keeps a number of ready stock units of one flavour."""

    spec_name: SpecName
    """Name of the flavour, such as g1.1: what claims ask for."""
    replicas: _Replicas
    """Number of ready units to keep; claimed units do not count."""
    name: Name | None = None
    """Name of the pool. Defaults to a name derived from the operationID."""
    namespace: Namespace | None = None
    """The stock namespace to create the pool in. Defaults to the first stock namespace."""
    image: Image = None
    """Image of the stock units. Defaults to the operator's small reservation image."""
    cpu: Cpu = None
    """CPUs of each unit, such as 4 or 500m."""
    memory: Memory = None
    """Memory of each unit, such as 16Gi."""
    gpu: GpuCount = 0
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs: the value of label nvidia.com/gpu.product that a node must have."""
    template: UnitTemplate = field(default=UnitTemplate())
    """Command, environment, ports and readiness probe of the stock units."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], MapOf("name"), Items(maximum=16)] = ()
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...], Atomic(), Items(maximum=32)] = ()
    """Taints of nodes that the units tolerate."""
    node_selector: Annotated[FrozenDict[str, str], Properties(maximum=32)] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: _RuntimeClass = None
    """RuntimeClass of the units."""

    def request(self, operation_id: str, namespaces: Namespaces) -> CreatePool:
        """The request to the service; `namespaces` are the defaults."""
        spec = StockPoolSpec(
            self.spec_name,
            self.replicas,
            image=self.image,
            cpu=self.cpu,
            memory=self.memory,
            gpu=self.gpu,
            gpu_type=self.gpu_type,
            template=self.template,
            image_pull_secrets=self.image_pull_secrets,
            tolerations=self.tolerations,
            node_selector=self.node_selector,
            runtime_class_name=self.runtime_class_name,
        )
        name = self.name or pool_name(self.spec_name, operation_id)
        return CreatePool(name, spec, self.namespace or namespaces.default_stock)


@frozen
class UpdatePoolBody(Struct):
    """The fields to change, as a merge patch: omitted fields keep their values, inside template too; null removes a
    value; lists are replaced as a whole. Any change but one of replicas replaces the stock, unit by unit.
    """

    spec_name: SpecName | None = None
    """Name of the flavour."""
    replicas: Annotated[int | None, Range(minimum=0, maximum=10000)] = None
    """Number of ready units to keep; claimed units do not count."""
    image: Image = None
    """Image of the stock units."""
    cpu: Cpu = None
    """CPUs of each unit."""
    memory: Memory = None
    """Memory of each unit."""
    gpu: Annotated[int | None, Range(minimum=0, maximum=1024)] = None
    """GPUs of each unit."""
    gpu_type: GpuType = None
    """Model of the GPUs."""
    template: UnitTemplate | None = None
    """Command, environment, ports and readiness probe of the stock units."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...] | None, MapOf("name"), Items(maximum=16)] = None
    """Secrets with the credentials for the image's registry."""
    tolerations: Annotated[tuple[UnitToleration, ...] | None, Atomic(), Items(maximum=32)] = None
    """Taints of nodes that the units tolerate."""
    node_selector: Annotated[FrozenDict[str, str] | None, Properties(maximum=32)] = None
    """Labels that a node must have. The labels that are given change; null removes all."""
    runtime_class_name: _RuntimeClass = None
    """RuntimeClass of the units."""

    def request(self, name: str, namespace: str, resource_version: str) -> UpdateObject:
        """The request to the service, for a pool at this version ("": any)."""
        change = freeze({"spec": encode(self)})
        return UpdateObject(name, namespace, change, resource_version=resource_version)


@frozen(kw_only=True)
class PoolView(ObjectView):
    """Spec and status of a pool. Fields without a value are omitted."""

    replicas: int | None = None
    """Number of ready units to keep; claimed units do not count."""
    tolerations: tuple[UnitToleration, ...] = ()
    """Taints of nodes that the units tolerate."""
    node_selector: FrozenDict[str, str] = EMPTY
    """Labels that a node must have."""
    runtime_class_name: str | None = None
    """RuntimeClass of the units."""
    available: int | None = None
    """Stock units that are ready and not claimed."""
    allocated: int | None = None
    """Active units on capacity of this pool."""
    failures: int | None = None
    """Stock units that failed in a row since the last one became ready."""


def _pool_view(pool: StockPool) -> PoolView:
    spec, status = pool.spec, pool.status
    return PoolView(
        **object_fields(pool),
        replicas=spec.replicas,
        tolerations=spec.tolerations,
        node_selector=spec.node_selector,
        runtime_class_name=spec.runtime_class_name,
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
        request = body.request(call.operation_id, self.service.namespaces)
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
        request = body.request(key.name, key.namespace, call.if_match or "")
        changed = await self.service.updates.update(POOL_UPDATE, call.operation_id, request)
        if changed.object is None:
            # The pool was updated, and has been deleted since.
            name, namespace, uid = key.name, key.namespace, changed.performed.result.uid
            view = PoolView(name=name, namespace=namespace, uid=uid, operation_id=call.operation_id, deleted=True)
            return Reply(200, view)
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
