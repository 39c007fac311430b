"""The routes of a resource, with the names, responses, errors and descriptions that all resources have in common."""

from collections.abc import Iterator
from typing import Any, Final

from gpuruntime.api.rest.jobs import JobView
from gpuruntime.api.rest.queries import NamespaceQuery, ObjectQuery, WaitForQuery, WaitQuery, WatchQuery
from gpuruntime.endpoints.server.route import CONFLICT, REFUSED, STALE, Idempotency, Response, Route, Scope
from gpuruntime.web.resources.object_handlers import ObjectHandlers
from gpuruntime.web.resources.object_resource import Create, ObjectResource, Words
from gpuruntime.web.sse.events import watch_events

__all__ = ["object_routes"]

_LIST: Final = """\
List {many} in pages: the `next` of a page is the `cursor` of the following one.

A {one} that exists all the time is on exactly one of the pages. With watch=1 the response is a stream of
server-sent events instead: `reset`, one `added` for each {one}, and `synced`; then `added`, `modified` and
`deleted` as they happen. To resume, send the id of the last event in header Last-Event-ID. `reset` clears the id:
a client that disconnects before `synced` starts over."""
_GET: Final = "Get a {one}. With wait=Ready the response is sent when the {one} is ready, or when the timeout is over."
_CREATED: Final = """\
Sent again with the same operationID, the response is the {one} as it is now; if it has been deleted since, its name and
UID with `deleted: true`. With wait=Ready the response is sent when the {one} is ready, or has been deleted."""
_UPDATED: Final = """\
Omitted fields keep their values. With If-Match, only if the {one} has this ETag. If the {one} is deleted during
the wait, the response has its name and UID with `deleted: true`."""
_DELETED: Final = "With If-Match, only if the {one} has this ETag when the request arrives."
_WAIT: Final = (
    "Respond when the {one} is ready, or deleted; with 202 and the {one} as it is if the timeout is over first."
)
_WATCH: Final = (
    "Watch a {one}: its changes as server-sent events, as in the list of {many}. It may be deleted and recreated."
)


def object_routes(resource: ObjectResource[Any, Any]) -> tuple[Route, ...]:
    """The routes of a resource: list, get, wait and watch, and those of create, update and delete that it declares."""
    handlers: ObjectHandlers[Any, Any] = ObjectHandlers(resource)
    return (*_collection_routes(resource, handlers), *_object_routes(resource, handlers))


def _collection_routes(resource: ObjectResource[Any, Any], handlers: ObjectHandlers[Any, Any]) -> Iterator[Route]:
    words, view = resource.words, resource.view_type
    page = Response(200, view, f"A page of {words.many}, by namespace and name.", is_list=True)
    yield Route(
        *("GET", resource.path, handlers.list, f"List or watch {words.many}", Scope.READ),
        name=f"list{words.name}s",
        description=_text(_LIST, words),
        query=resource.query,
        responses=(page, _stream(resource, "With watch: server-sent events.")),
    )
    create = resource.create
    if create is not None:
        yield Route(
            *("POST", resource.path, handlers.create(create), f"Create a {words.one}", resource.write_scope),
            name=f"create{words.name}",
            description=create.description if create.as_job else f"{create.description}\n\n{_text(_CREATED, words)}",
            body=create.body,
            query=None if create.as_job else WaitQuery,
            responses=_creation_responses(resource, create),
            errors=(CONFLICT, *create.errors, REFUSED),
            idempotency=create.idempotency,
        )


def _creation_responses(resource: ObjectResource[Any, Any], create: Create[Any]) -> tuple[Response, ...]:
    one, view = resource.words.one, resource.view_type
    if create.as_job:
        return (
            Response(202, JobView, f"The {one} is stored; it may not be ready."),
            Response(200, JobView, "The request was sent before: the job as it is now."),
        )
    return (
        Response(201, view, f"The {one} was created. With wait, it may have been deleted since."),
        Response(200, view, f"The request was sent before: the {one} as it is now."),
        _timed_out(resource),
    )


def _object_routes(resource: ObjectResource[Any, Any], handlers: ObjectHandlers[Any, Any]) -> Iterator[Route]:
    words, view, path = resource.words, resource.view_type, f"{resource.path}/{{name}}"
    yield Route(
        *("GET", path, handlers.get, f"Get a {words.one}", Scope.READ),
        name=f"get{words.name}",
        description=_text(_GET, words),
        query=ObjectQuery,
        responses=(Response(200, view, f"The {words.one}."), _timed_out(resource)),
        errors=(words.missing,),
    )
    update, delete = resource.update, resource.delete
    if update is not None:
        yield Route(
            *("PUT", path, handlers.update(update), f"Update a {words.one}", resource.write_scope),
            name=f"update{words.name}",
            description=f"{update.description}\n\n{_text(_UPDATED, words)}",
            body=update.body,
            query=ObjectQuery,
            responses=(Response(200, view, f"The {words.one} after the update."), _timed_out(resource)),
            errors=(words.missing, STALE, CONFLICT, REFUSED, *update.errors),
            idempotency=Idempotency.ACCEPTED,
        )
    if delete is not None:
        yield Route(
            *("DELETE", path, handlers.delete(delete), f"Delete a {words.one}", resource.write_scope),
            name=f"delete{words.name}",
            description=f"{delete.description}\n\n{_text(_DELETED, words)}",
            query=NamespaceQuery,
            responses=(Response(204, None, f"The {words.one} is deleted."),),
            errors=(words.missing, STALE, CONFLICT, REFUSED, *delete.errors),
            idempotency=Idempotency.ACCEPTED,
        )
    yield Route(
        *("GET", f"{path}/wait", handlers.wait, f"Wait for a {words.one}", Scope.READ),
        name=f"waitFor{words.name}",
        description=_text(_WAIT, words),
        query=WaitForQuery,
        responses=(Response(200, view, f"The {words.one} is ready, or deleted."), _timed_out(resource)),
        errors=(words.missing,),
    )
    yield Route(
        *("GET", f"{path}/watch", handlers.watch, f"Watch a {words.one}", Scope.READ),
        name=f"watch{words.name}",
        description=_text(_WATCH, words),
        query=WatchQuery,
        responses=(_stream(resource, "Server-sent events."),),
        errors=(words.missing,),
    )


def _timed_out(resource: ObjectResource[Any, Any]) -> Response:
    text = f"The {resource.words.one} as it is: the timeout was over before it was ready."
    return Response(202, resource.view_type, text)


def _stream(resource: ObjectResource[Any, Any], text: str) -> Response:
    view = resource.view_type
    schema = f"{view.__name__.removesuffix('View')}WatchEvent"
    return Response(200, None, text, events=watch_events(view), event_schema=schema)


def _text(template: str, words: Words) -> str:
    return template.format(one=words.one, many=words.many)
