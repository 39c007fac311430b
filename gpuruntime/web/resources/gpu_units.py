"""/gpu-units: create, read, update, delete, wait for and watch active units."""

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web
from attrs import Factory, field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.rest.gpu_units import (
    CreateUnitBody,
    UnitNamespaceQuery,
    UnitQuery,
    UnitsQuery,
    UnitView,
    UnitWaitQuery,
    UnitWatchQuery,
    UpdateUnitBody,
    WaitQuery,
)
from gpuruntime.meta import EMPTY, ObjectKey
from gpuruntime.service.errors import InvalidRequestError, ObjectNotFoundError
from gpuruntime.service.reads.reader import ReadResult
from gpuruntime.service.units.create import CreateUnit, check_create
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.update import UNIT_UPDATE
from gpuruntime.service.units.wait import UnitWaiter
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.masking import reject_masks, view_for
from gpuruntime.web.resources.object_models import list_reply
from gpuruntime.web.resources.unit_models import (
    create_request,
    deleted_unit_view,
    unit_filter,
    unit_view,
    update_request,
)
from gpuruntime.web.server.headers import deletion_headers, location_header, read_headers, write_headers
from gpuruntime.web.server.route import (
    CONFLICT,
    NO_CAPACITY,
    REFUSED,
    STALE,
    Call,
    Idempotency,
    Reply,
    Response,
    Route,
    Scope,
)
from gpuruntime.web.sse.events import UNIT_EVENTS
from gpuruntime.web.sse.stream import UnitStreams

__all__ = ["GPUUnitRoutes"]

_COLLECTION: Final = "/gpu-units"
_ITEM: Final = "/gpu-units/{name}"
_MISSING: Final = (404, "gpuunit_not_found")


@frozen
class GPUUnitRoutes:
    """The routes of /gpu-units."""

    service: Service
    _streams: UnitStreams = field(
        init=False,
        default=Factory(
            lambda self: UnitStreams(self.service.log, self.service.unit_reads, self.service.namespaces),
            takes_self=True,
        ),
    )

    def routes(self) -> tuple[Route, ...]:
        """All routes of active units."""
        timed_out = Response(202, UnitView, "The unit as it is: the timeout was over before it was ready.")
        stream = Response(200, None, "With watch: server-sent events.", events=UNIT_EVENTS)
        return (
            Route(
                *("GET", _COLLECTION, self.list_units, "List or watch units", Scope.READ),
                name="listGpuUnits",
                query=UnitsQuery,
                responses=(Response(200, UnitView, "A page of units, by namespace and name.", is_list=True), stream),
            ),
            Route(
                *("POST", _COLLECTION, self.create, "Create a unit", Scope.WRITE),
                name="createGpuUnit",
                body=CreateUnitBody,
                query=WaitQuery,
                responses=(
                    Response(201, UnitView, "The unit was created. With wait, it may have been deleted since."),
                    Response(200, UnitView, "The request was sent before: the unit as it is now."),
                    timed_out,
                ),
                errors=(CONFLICT, NO_CAPACITY, REFUSED),
                idempotency=Idempotency.REQUIRED,
            ),
            Route(
                *("GET", _ITEM, self.get, "Get a unit", Scope.READ),
                name="getGpuUnit",
                query=UnitQuery,
                responses=(Response(200, UnitView, "The unit."), timed_out),
                errors=(_MISSING,),
            ),
            Route(
                *("PUT", _ITEM, self.update, "Update a unit", Scope.WRITE),
                name="updateGpuUnit",
                body=UpdateUnitBody,
                query=UnitQuery,
                responses=(Response(200, UnitView, "The unit after the update."), timed_out),
                errors=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("DELETE", _ITEM, self.delete, "Delete a unit", Scope.WRITE),
                name="deleteGpuUnit",
                query=UnitNamespaceQuery,
                responses=(Response(204, None, "The unit is deleted."),),
                errors=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("GET", f"{_ITEM}/wait", self.wait, "Wait for a unit", Scope.READ),
                name="waitForGpuUnit",
                query=UnitWaitQuery,
                responses=(Response(200, UnitView, "The unit is ready, or deleted."), timed_out),
                errors=(_MISSING,),
            ),
            Route(
                *("GET", f"{_ITEM}/watch", self.watch, "Watch a unit", Scope.READ),
                name="watchGpuUnit",
                query=UnitWatchQuery,
                responses=(Response(200, None, "Server-sent events.", events=UNIT_EVENTS),),
                errors=(_MISSING,),
            ),
        )

    async def list_units(self, call: Call) -> Reply | web.StreamResponse:
        """List active units in pages: the `next` of a page is the `cursor` of the following one.

        A unit that exists all the time is on exactly one of the pages. With watch=1 the response is a stream of
        server-sent events instead: `reset`, one `added` for each unit, and `synced`; then `added`, `modified` and
        `deleted` as they happen. To resume, send the id of the last event in header Last-Event-ID. `reset` clears the
        id: a client that disconnects before `synced` starts over.
        """
        query: UnitsQuery = call.query
        matches = unit_filter(query, self.service.namespaces, stock=False)
        if query.watch:
            return await self._stream(call, query.resource_version, matches)
        return await list_reply(self.service.unit_reads, call, matches, lambda unit: self._view(call, unit))

    async def create(self, call: Call) -> Reply:
        """Claim the oldest ready stock unit of the flavour, and run the image on its capacity.

        With coldStart the unit is created without stock. If there is no ready stock, nothing is stored, and the
        operationID can be used again. Sent again with the same operationID, the response is the unit as it is now; if
        it has been deleted since, its name and UID with `deleted: true`. With wait=Ready the response is sent when the
        unit is ready, or has been deleted.
        """
        reject_masks(call.body)
        request = self._create_request(call.body)
        created = await self.service.units.create(call.operation_id, request)
        status = 200 if created.performed.is_replay else 201
        if created.object is None:
            uid = created.performed.result.uid
            return Reply(status, deleted_unit_view(request.name, request.namespace, uid, call.operation_id))
        location = location_header(_COLLECTION, created.object.key) if status == 201 else EMPTY
        return await self._written(call, created.object, status, location)

    async def get(self, call: Call) -> Reply:
        """Get a unit. With wait=Ready the response is sent when the unit is ready, or when the timeout is over."""
        query: UnitQuery = call.query
        found = await self._read(call, query.namespace)
        if query.wait is None:
            return Reply(200, self._view(call, found.object), read_headers(found))
        return await self._when_ready(call, found.object, 200, query.timeout, EMPTY)

    async def update(self, call: Call) -> Reply:
        """Update image, template, access, pull secrets, security profile or labels. Omitted fields keep their values.

        With If-Match, only if the unit has this ETag. A change of anything but labels restarts the unit. If the unit is
        deleted during the wait, the response has its name and UID with `deleted: true`.
        """
        body, query = call.body, call.query
        reject_masks(body)
        key = self._key(call, query.namespace)
        request = update_request(body, key.name, key.namespace, call.if_match or "")
        changed = await self.service.updates.update(UNIT_UPDATE, call.operation_id, request)
        if changed.object is None:
            uid = changed.performed.result.uid
            return Reply(200, deleted_unit_view(key.name, key.namespace, uid, call.operation_id))
        return await self._written(call, changed.object, 200, EMPTY)

    async def delete(self, call: Call) -> Reply:
        """Delete a unit. The stock unit that it was created from is created again, unless a pool had supplied it.

        With If-Match, only if the unit has this ETag when the request arrives.
        """
        key = self._key(call, call.query.namespace)
        request = DeleteUnit(key.name, key.namespace)
        deleted = await self.service.units.delete(call.operation_id, request, version=call.if_match or "")
        return Reply(204, headers=await deletion_headers(self.service.unit_reads, key, deleted.performed.result.uid))

    async def wait(self, call: Call) -> Reply:
        """Respond when the unit is ready, or deleted; with 202 and the unit as it is if the timeout is over first."""
        query: UnitWaitQuery = call.query
        if query.for_ == "Ready":
            found = await self._read(call, query.namespace)
            return await self._when_ready(call, found.object, 200, query.timeout, EMPTY)
        key = self._key(call, query.namespace)
        result = await self._waiter().until_deleted(key, call.at_least, query.timeout)
        if result.read is None:
            return Reply(200, deleted_unit_view(key.name, key.namespace, result.uid, None))
        return Reply(202, self._view(call, result.read.object), read_headers(result.read))

    async def watch(self, call: Call) -> web.StreamResponse:
        """Watch a unit: its changes as server-sent events, as in the list of units. It may be deleted and recreated."""
        query: UnitWatchQuery = call.query
        key = self._key(call, query.namespace)
        since = call.request.headers.get("Last-Event-ID") or query.resource_version
        if since is None:
            await self._read(call, query.namespace)
        return await self._stream(call, since, lambda unit: unit.key == key)

    def _create_request(self, body: CreateUnitBody) -> CreateUnit:
        """The request of a body.

        Raises:
            InvalidRequestError: fields contradict each other; all other problems are reported with it.
        """
        request, problems = create_request(body, self.service.namespaces), body.problems()
        if not problems:
            return request
        try:
            check_create(request, self.service.namespaces)
        except InvalidRequestError as error:
            problems += error.problems
        raise InvalidRequestError(problems)

    async def _written(self, call: Call, unit: GPUUnit, status: int, headers: Mapping[str, str]) -> Reply:
        query: WaitQuery = call.query
        if query.wait is None:
            return Reply(status, self._view(call, unit), write_headers(unit) | headers)
        try:
            return await self._when_ready(call, unit, status, query.timeout, headers)
        except ObjectNotFoundError:
            # The write succeeded. A retry gets the same response.
            name, namespace = unit.metadata.name, unit.metadata.namespace
            return Reply(status, deleted_unit_view(name, namespace, unit.metadata.uid, call.operation_id))

    async def _when_ready(
        self, call: Call, unit: GPUUnit, status: int, seconds: int, headers: Mapping[str, str]
    ) -> Reply:
        result = await self._waiter().until_ready(unit.key, unit.metadata.resource_version, seconds)
        view = self._view(call, result.read.object)
        return Reply(status if result.is_ready else 202, view, read_headers(result.read) | headers)

    async def _read(self, call: Call, namespace: str | None) -> ReadResult[GPUUnit]:
        return await self.service.unit_reads.get(self._key(call, namespace), call.at_least)

    def _key(self, call: Call, namespace: str | None) -> ObjectKey:
        """The key of the unit in the path. Stock units and units in other namespaces are not found here."""
        key = ObjectKey(namespace or self.service.namespaces.default_instance, call.path_params["name"])
        if not self.service.units.may_have(key):
            raise ObjectNotFoundError(f"unit {key}: not found")
        return key

    def _view(self, call: Call, unit: GPUUnit) -> UnitView:
        return view_for(call.caller, unit_view(unit, self.service.namespaces))

    def _waiter(self) -> UnitWaiter:
        return UnitWaiter(self.service.unit_reads)

    async def _stream(self, call: Call, since: str | None, matches: Callable[[GPUUnit], bool]) -> web.StreamResponse:
        return await self._streams.serve(
            call.request, since, matches, call.at_least, unmasked=call.caller.may_see_secrets
        )
