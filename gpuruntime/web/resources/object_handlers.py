"""The handlers of a resource: list, get, create, update, delete, wait and watch."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from aiohttp import web
from attrs import Factory, field, frozen

from gpuruntime.api.rest.objects import ObjectView
from gpuruntime.api.rest.queries import ObjectQuery, ObjectsQuery, WaitForQuery, WaitQuery, WatchQuery
from gpuruntime.endpoints.server.headers import (
    deletion_headers,
    location_header,
    page_reply,
    read_headers,
    version_header,
    write_headers,
)
from gpuruntime.endpoints.server.route import Call, Handler, Reply
from gpuruntime.meta import EMPTY, FrozenDict, ObjectKey, TypedObject
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import UpdateObject, WriteResult
from gpuruntime.service.reads.reader import ReadResult
from gpuruntime.web.resources.jobs import finished_job_view
from gpuruntime.web.resources.masking import reject_masks, view_for
from gpuruntime.web.resources.object_models import after_cursor
from gpuruntime.web.resources.object_resource import Create, Delete, ObjectResource, Update
from gpuruntime.web.sse.stream import ObjectStreams

__all__ = ["ObjectHandlers"]

K = TypeVar("K", bound=TypedObject)
V = TypeVar("V", bound=ObjectView)


@frozen
class ObjectHandlers(Generic[K, V]):
    """Handles the requests of one resource."""

    resource: ObjectResource[K, V]
    _streams: ObjectStreams[K] = field(
        init=False,
        default=Factory(
            lambda self: ObjectStreams(self.resource.objects.log, self.resource.objects.reads, self.resource.view),
            takes_self=True,
        ),
    )

    async def list(self, call: Call) -> Reply | web.StreamResponse:
        query: ObjectsQuery = call.query
        reads, matches = self.resource.objects.reads, self._matches(query)
        if query.watch:
            return await self._stream(call, query.resource_version, matches)
        page = await reads.page(
            matches,
            limit=query.limit,
            namespace=query.namespace,
            after=after_cursor(query.cursor),
            at_least=call.at_least,
        )
        return page_reply(page, lambda found: self._view(call, found))

    async def get(self, call: Call) -> Reply:
        query: ObjectQuery = call.query
        found = await self._read(call)
        if query.wait is None:
            return Reply(200, self._view(call, found.object), read_headers(found))
        return await self._when_ready(call, found.object, 200, query.timeout, EMPTY)

    def create(self, declared: Create[K]) -> Handler:
        async def handle(call: Call) -> Reply:
            reject_masks(call.body)
            request = declared.request(call.body, call.operation_id)
            created = await declared.perform(call.operation_id, request)
            return self._job(created) if declared.as_job else await self.written(call, created, is_new=True)

        return handle

    def update(self, declared: Update) -> Handler:
        async def handle(call: Call) -> Reply:
            reject_masks(call.body)
            key = self._key(call)
            change = declared.change(call.body)
            request = UpdateObject(key.name, key.namespace, change, resource_version=call.if_match or "")
            return await self.written(call, await self.resource.objects.update(call.operation_id, request))

        return handle

    def delete(self, declared: Delete) -> Handler:
        async def handle(call: Call) -> Reply:
            key = self._key(call)
            request = DeleteObject(key.name, key.namespace, resource_version=call.if_match or "")
            performed = await declared.perform(call.operation_id, request)
            headers = await deletion_headers(self.resource.objects.reads, key, performed.result.uid)
            return Reply(204, headers=headers)

        return handle

    async def wait(self, call: Call) -> Reply:
        query: WaitForQuery = call.query
        if query.for_ == "Ready":
            return await self._when_ready(call, (await self._read(call)).object, 200, query.timeout, EMPTY)
        key = self._key(call)
        result = await self.resource.objects.waiter.until_deleted(key, call.at_least, query.timeout)
        if result.read is None:
            return Reply(200, self._deleted_view(key, result.uid, None))
        return Reply(202, self._view(call, result.read.object), read_headers(result.read))

    async def watch(self, call: Call) -> web.StreamResponse:
        query: WatchQuery = call.query
        key = self._key(call)
        since = call.request.headers.get("Last-Event-ID") or query.resource_version
        if since is None:
            await self._read(call)
        return await self._stream(call, since, lambda found: found.key == key)

    def _matches(self, query: ObjectsQuery) -> Callable[[K], bool]:
        """The filter of a list. An informer may watch more namespaces than those in which the objects are read."""
        readable, matches = frozenset(self.resource.objects.reads.namespaces), self.resource.matches(query)
        return lambda found: found.metadata.namespace in readable and matches(found)

    def _job(self, created: WriteResult[K]) -> Reply:
        job = finished_job_view(created.performed, deleted=created.object is None)
        if created.object is None or created.performed.is_replay:
            return Reply(200, job)
        version = version_header(created.object.metadata.resource_version)
        return Reply(202, job, FrozenDict({**version, **self._location(created.object)}))

    async def written(self, call: Call, result: WriteResult[K], *, is_new: bool = False) -> Reply:
        """The reply with an object that was created or updated, when it is ready if the caller waits for that."""
        query: WaitQuery = call.query
        status = 201 if is_new and not result.performed.is_replay else 200
        written, performed = result.object, result.performed.result
        key = ObjectKey(performed.namespace or "", performed.name)
        if written is None:
            return Reply(status, self._deleted_view(key, performed.uid, call.operation_id))
        headers = self._location(written) if status == 201 else EMPTY
        if query.wait is None:
            return Reply(status, self._view(call, written), write_headers(written) | headers)
        try:
            return await self._when_ready(call, written, status, query.timeout, headers)
        except ObjectNotFoundError:
            # The write succeeded. A retry gets the same response.
            return Reply(status, self._deleted_view(key, written.metadata.uid, call.operation_id))

    async def _when_ready(self, call: Call, found: K, status: int, seconds: int, headers: Mapping[str, str]) -> Reply:
        waiter = self.resource.objects.waiter
        result = await waiter.until_ready(found.key, found.metadata.resource_version, seconds)
        view = self._view(call, result.read.object)
        return Reply(status if result.is_ready else 202, view, read_headers(result.read) | headers)

    async def _read(self, call: Call) -> ReadResult[K]:
        return await self.resource.objects.reads.get(self._key(call), call.at_least)

    async def _stream(self, call: Call, since: str | None, matches: Callable[[K], bool]) -> web.StreamResponse:
        return await self._streams.serve(
            call.request, since, matches, call.at_least, unmasked=call.caller.may_see_secrets
        )

    def _key(self, call: Call) -> ObjectKey:
        return self.resource.objects.key(call.path_params["name"], call.query.namespace)

    def _view(self, call: Call, found: K) -> V:
        return view_for(call.caller, self.resource.view(found))

    def _deleted_view(self, key: ObjectKey, uid: str | None, operation_id: str | None) -> V:
        return self.resource.deleted_view(
            name=key.name, namespace=key.namespace, uid=uid, operation_id=operation_id, deleted=True
        )

    def _location(self, made: K) -> Mapping[str, str]:
        return location_header(self.resource.path, made.key)
