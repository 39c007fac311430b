"""Active units: created on stock or cold, read, changed, deleted, waited for and followed."""

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web
from attrs import Factory, field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.meta import EMPTY, ObjectKey
from gpuruntime.service.errors import InvalidRequestError, ObjectNotFoundError
from gpuruntime.service.operations.requests import CreateUnit, DeleteUnit, check_create
from gpuruntime.service.reads.reader import ReadResult
from gpuruntime.service.units.update import UNIT_CHANGE
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.list_queries import (
    ReadyQuery,
    UnitPlaceQuery,
    UnitQuery,
    UnitsQuery,
    UnitWaitQuery,
    UnitWatchQuery,
    after_cursor,
    unit_filter,
)
from gpuruntime.web.resources.unit_bodies import CreateUnitBody, UpdateUnitBody
from gpuruntime.web.resources.unit_views import UnitView, gone_unit, unit_view
from gpuruntime.web.resources.unit_waiting import UnitWaiting
from gpuruntime.web.server.masking import refuse_masks, shown_to
from gpuruntime.web.server.reply_headers import listed, location, of_deletion, of_seen, of_written
from gpuruntime.web.server.route import (
    CONFLICT,
    NO_CAPACITY,
    REFUSED,
    STALE,
    Answer,
    Call,
    Idempotency,
    Reply,
    Route,
    Scope,
)
from gpuruntime.web.sse.stream import LiveUnits
from gpuruntime.web.sse.unit_events import UNIT_EVENTS

__all__ = ["Units"]

_COLLECTION: Final = "/gpu-units"
_ITEM: Final = "/gpu-units/{name}"
_MISSING: Final = (404, "gpuunit_not_found")


@frozen
class Units:
    """The handlers of /gpu-units."""

    service: Service
    _live: LiveUnits = field(
        init=False,
        default=Factory(
            lambda self: LiveUnits(self.service.log, self.service.unit_reads, self.service.namespaces), takes_self=True
        ),
    )

    def routes(self) -> tuple[Route, ...]:
        """All routes of active units."""
        late = Answer(202, UnitView, "The unit as it is: the time was over before it was ready.")
        stream = Answer(200, None, "With watch: server-sent events.", events=UNIT_EVENTS)
        return (
            Route(
                *("GET", _COLLECTION, self.list_units, "List units, or follow them", Scope.READ),
                name="listGpuUnits",
                query=UnitsQuery,
                answers=(Answer(200, UnitView, "A page of units, by namespace and name.", is_list=True), stream),
            ),
            Route(
                *("POST", _COLLECTION, self.create, "Create a unit", Scope.WRITE),
                name="createGpuUnit",
                body=CreateUnitBody,
                query=ReadyQuery,
                answers=(
                    Answer(201, UnitView, "The unit was created, and may have been deleted while it was waited for."),
                    Answer(200, UnitView, "The request was sent before: the unit as it is now."),
                    late,
                ),
                refusals=(CONFLICT, NO_CAPACITY, REFUSED),
                idempotency=Idempotency.REQUIRED,
            ),
            Route(
                *("GET", _ITEM, self.get, "Get a unit", Scope.READ),
                name="getGpuUnit",
                query=UnitQuery,
                answers=(Answer(200, UnitView, "The unit."), late),
                refusals=(_MISSING,),
            ),
            Route(
                *("PUT", _ITEM, self.update, "Change a unit", Scope.WRITE),
                name="updateGpuUnit",
                body=UpdateUnitBody,
                query=UnitQuery,
                answers=(Answer(200, UnitView, "The unit after the change."), late),
                refusals=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("DELETE", _ITEM, self.delete, "Delete a unit", Scope.WRITE),
                name="deleteGpuUnit",
                query=UnitPlaceQuery,
                answers=(Answer(204, None, "The unit is deleted."),),
                refusals=(_MISSING, STALE, CONFLICT, REFUSED),
                idempotency=Idempotency.ACCEPTED,
            ),
            Route(
                *("GET", f"{_ITEM}/wait", self.wait, "Wait for a unit", Scope.READ),
                name="waitForGpuUnit",
                query=UnitWaitQuery,
                answers=(Answer(200, UnitView, "The unit is what was waited for."), late),
                refusals=(_MISSING,),
            ),
            Route(
                *("GET", f"{_ITEM}/watch", self.watch, "Follow a unit", Scope.READ),
                name="watchGpuUnit",
                query=UnitWatchQuery,
                answers=(Answer(200, None, "Server-sent events.", events=UNIT_EVENTS),),
                refusals=(_MISSING,),
            ),
        )

    async def list_units(self, call: Call) -> Reply | web.StreamResponse:
        """The active units that match, page by page: `next` of a page is the `cursor` of the following one.

        Following the cursors shows every unit that is there all the time exactly once. With watch=1 the answer is a
        stream of server-sent events instead: `reset`, one `added` for each unit and `synced`; then `added`, `modified`
        and `deleted` as they happen. Come back with the id of the last event in the header Last-Event-ID. `reset` takes
        the id back: who drops before `synced` begins anew.
        """
        query: UnitsQuery = call.query
        matches = unit_filter(query, self.service.namespaces, stock=False)
        if query.watch:
            return await self._stream(call, query.resource_version, matches)
        page = await self.service.unit_reads.page(
            matches,
            limit=query.limit,
            namespace=query.namespace,
            after=after_cursor(query.cursor),
            at_least=call.at_least,
        )
        return listed(page, lambda unit: self._view(call, unit))

    async def create(self, call: Call) -> Reply:
        """Take over a ready stock unit of the flavour, the oldest first, and run the image on its capacity.

        With coldStart the unit is created without stock. Sent again with the same operationID, the answer is the unit
        as it is now, or what is recorded of it with `deleted: true`. If there is no ready stock, nothing is stored, and
        the operationID can be used again. With wait=Ready the answer comes when the unit is ready; if it is deleted
        before that, the answer is what is recorded of it, too.
        """
        refuse_masks(call.body)
        request = self._asked(call.body)
        answer = await self.service.units.create(call.operation_id, request)
        status = 200 if answer.performed.is_replay else 201
        if answer.unit is None:
            uid = answer.performed.result.uid
            return Reply(status, gone_unit(request.name, request.namespace, uid, call.operation_id))
        made = location(_COLLECTION, answer.unit.key) if status == 201 else EMPTY
        return await self._written(call, answer.unit, status, made)

    async def get(self, call: Call) -> Reply:
        """The unit. With wait=Ready the answer comes when it is ready, or when the time is over."""
        query: UnitQuery = call.query
        seen = await self._seen(call, query.namespace)
        if query.wait is None:
            return Reply(200, self._view(call, seen.object), of_seen(seen))
        return await self._when_ready(call, seen.object, 200, query.timeout, EMPTY)

    async def update(self, call: Call) -> Reply:
        """Change image, template, access, pull secrets, security profile or labels. What is left out stays as it is.

        With If-Match, only in the state with this ETag. A change of anything but labels restarts the unit. If it is
        deleted while it is waited for, the answer is what is recorded of it with `deleted: true`.
        """
        body, query = call.body, call.query
        refuse_masks(body)
        key = self._key(call, query.namespace)
        request = body.request(key.name, key.namespace, call.if_match or "")
        changed = await self.service.changes.change(UNIT_CHANGE, call.operation_id, request)
        if changed.object is None:
            return Reply(200, gone_unit(key.name, key.namespace, changed.performed.result.uid, call.operation_id))
        return await self._written(call, changed.object, 200, EMPTY)

    async def delete(self, call: Call) -> Reply:
        """Delete the unit, and give back the stock that it came from unless a pool had supplied it.

        With If-Match, only if it is in the state with this ETag when the request comes.
        """
        key = self._key(call, call.query.namespace)
        request = DeleteUnit(key.name, key.namespace)
        answer = await self.service.units.delete(call.operation_id, request, version=call.if_match or "")
        return Reply(204, headers=await of_deletion(self.service.unit_reads, key, answer.performed.result.uid))

    async def wait(self, call: Call) -> Reply:
        """Answer when the unit is ready, or gone; 202 and the unit as it is when the time is over before that."""
        query: UnitWaitQuery = call.query
        if query.for_ == "Ready":
            seen = await self._seen(call, query.namespace)
            return await self._when_ready(call, seen.object, 200, query.timeout, EMPTY)
        key = self._key(call, query.namespace)
        left = await self._waiting().gone(key, call.at_least, query.timeout)
        if left.seen is None:
            return Reply(200, gone_unit(key.name, key.namespace, left.uid, None))
        return Reply(202, self._view(call, left.seen.object), of_seen(left.seen))

    async def watch(self, call: Call) -> web.StreamResponse:
        """What happens to the unit, as server-sent events: see the list of units. It may be deleted and made anew."""
        query: UnitWatchQuery = call.query
        key = self._key(call, query.namespace)
        since = call.request.headers.get("Last-Event-ID") or query.resource_version
        if since is None:
            await self._seen(call, query.namespace)
        return await self._stream(call, since, lambda unit: unit.key == key)

    def _asked(self, body: CreateUnitBody) -> CreateUnit:
        """The unit that a body asks for.

        Raises:
            InvalidRequestError: its fields do not fit together; whatever else is wrong is told with it.
        """
        request, problems = body.request(self.service.namespaces), body.problems()
        if not problems:
            return request
        try:
            check_create(request, self.service.namespaces)
        except InvalidRequestError as error:
            problems += error.problems
        raise InvalidRequestError(problems)

    async def _written(self, call: Call, unit: GPUUnit, status: int, headers: Mapping[str, str]) -> Reply:
        query: ReadyQuery = call.query
        if query.wait is None:
            return Reply(status, self._view(call, unit), of_written(unit) | headers)
        try:
            return await self._when_ready(call, unit, status, query.timeout, headers)
        except ObjectNotFoundError:
            # What was asked for has happened. The same is told to who sends it again.
            name, namespace = unit.metadata.name, unit.metadata.namespace
            return Reply(status, gone_unit(name, namespace, unit.metadata.uid, call.operation_id))

    async def _when_ready(
        self, call: Call, unit: GPUUnit, status: int, seconds: int, headers: Mapping[str, str]
    ) -> Reply:
        waited = await self._waiting().ready(unit.key, unit.metadata.resource_version, seconds)
        chosen = status if waited.is_fulfilled else 202
        return Reply(chosen, self._view(call, waited.seen.object), of_seen(waited.seen) | headers)

    async def _seen(self, call: Call, namespace: str | None) -> ReadResult[GPUUnit]:
        return await self.service.unit_reads.get(self._key(call, namespace), call.at_least)

    def _key(self, call: Call, namespace: str | None) -> ObjectKey:
        """Which unit is meant; stock is not to be found here, nor what nobody looks after."""
        key = ObjectKey(namespace or self.service.namespaces.default_instance, call.names["name"])
        if not self.service.units.may_have(key):
            raise ObjectNotFoundError(f"unit {key}: found none of this name")
        return key

    def _view(self, call: Call, unit: GPUUnit) -> UnitView:
        return shown_to(call.caller, unit_view(unit, self.service.namespaces))

    def _waiting(self) -> UnitWaiting:
        return UnitWaiting(self.service.unit_reads)

    async def _stream(self, call: Call, since: str | None, matches: Callable[[GPUUnit], bool]) -> web.StreamResponse:
        return await self._live.stream(call.request, since, matches, call.at_least, clear=call.caller.sees_values)
