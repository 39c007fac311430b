"""What units and pools have in common over REST: filters, pages, the fields of views."""

from collections.abc import Callable
from typing import Any, Self, TypeVar

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.reasons import PROGRESSING, READY_CONDITION
from gpuruntime.api.rest.objects import ListQuery, ObjectView
from gpuruntime.api.stockpool import StockPool
from gpuruntime.meta import (
    ObjectKey,
    ObjectMeta,
    Selector,
    SelectorError,
    Struct,
    TypedObject,
    find_condition,
    parse_selector,
)
from gpuruntime.service.reads.reader import CursorError, Reads, cursor_of, parse_cursor
from gpuruntime.web.server.errors import Fault, invalid
from gpuruntime.web.server.headers import page_headers
from gpuruntime.web.server.route import Call, Page, Reply

__all__ = ["ListFilter", "after_cursor", "deleted_view", "list_reply", "object_fields", "phase_of"]

K = TypeVar("K", bound=TypedObject)
V = TypeVar("V", bound=ObjectView)


@frozen
class ListFilter:
    """The namespace, labels, phase and flavour that a list query asks for."""

    query: ListQuery
    labels: Selector

    @classmethod
    def of(cls, query: ListQuery) -> Self:
        """The filter of a query.

        Raises:
            ApiError: 400 for a malformed label selector.
        """
        try:
            return cls(query, parse_selector(query.label_selector or ""))
        except SelectorError as error:
            raise invalid(Fault("?labelSelector", str(error))) from error

    def matches(self, found: GPUUnit | StockPool) -> bool:
        query = self.query
        meta: ObjectMeta = found.metadata
        return (
            query.namespace in {None, meta.namespace}
            and query.spec_name in {None, found.spec.spec_name}
            and query.phase in {None, phase_of(found)}
            and self.labels.matches(meta.labels)
        )


def after_cursor(cursor: str | None) -> ObjectKey | None:
    """The key after which a page begins; None for the first page.

    Raises:
        ApiError: 400 for a malformed cursor.
    """
    try:
        return None if cursor is None else parse_cursor(cursor)
    except CursorError as error:
        raise invalid(Fault("?cursor", str(error))) from error


async def list_reply(reads: Reads[K], call: Call, matches: Callable[[K], bool], view: Callable[[K], Struct]) -> Reply:
    """The reply to a list request: the page of matching objects that its `ListQuery` asks for, each as its view.

    Raises:
        ApiError: 400 for a malformed cursor.
        NotRunningError, KubeError: see `Reads.page`.
    """
    query: ListQuery = call.query
    page = await reads.page(
        matches,
        limit=query.limit,
        namespace=query.namespace,
        after=after_cursor(query.cursor),
        at_least=call.at_least,
    )
    views = tuple(map(view, page.items))
    return Reply(200, Page(views, "" if page.next is None else cursor_of(page.next)), page_headers(page))


def phase_of(found: GPUUnit | StockPool) -> str:
    """The phase of an object; Progressing before it is first reconciled."""
    return found.status.phase or PROGRESSING


def object_fields(found: GPUUnit | StockPool) -> dict[str, Any]:
    """The fields of `ObjectView`: metadata and status. Those of the spec are added by `project`."""
    meta, status = found.metadata, found.status
    ready = find_condition(status.conditions, READY_CONDITION)
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": meta.labels,
        "phase": phase_of(found),
        "reason": None if ready is None else ready.reason,
        "message": None if ready is None else ready.message,
        "generation": meta.generation,
        "observed_generation": status.observed_generation,
        "last_sync_time": status.last_sync_time,
        "operation_id": meta.annotations.get(OPERATION_ID),
        "uid": meta.uid,
        "resource_version": meta.resource_version,
        "created_at": meta.creation_timestamp,
    }


def deleted_view(view: type[V], name: str, namespace: str, uid: str | None, operation_id: str | None, **more: Any) -> V:
    """The view of an object that a request created or updated, and that has been deleted since: its spec is unknown."""
    known: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid, "operation_id": operation_id}
    return view(**known, **more, deleted=True)
