"""What units and pools have in common: names, views, list queries and filters."""

from collections.abc import Callable
from typing import Annotated, Any, Final, Self, TypeVar

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.placement import PullSecret
from gpuruntime.api.reasons import PROGRESSING, READY_CONDITION
from gpuruntime.api.stockpool import StockPool
from gpuruntime.api.unit_template import UnitTemplate
from gpuruntime.meta import (
    EMPTY,
    FrozenDict,
    Length,
    ObjectKey,
    ObjectMeta,
    Pattern,
    Range,
    Selector,
    SelectorError,
    Struct,
    TypedObject,
    find_condition,
    parse_selector,
    wire,
)
from gpuruntime.service.reads.reader import CursorError, Reads, cursor_of, parse_cursor
from gpuruntime.web.server.errors import Fault, invalid
from gpuruntime.web.server.headers import page_headers
from gpuruntime.web.server.route import Call, Page, Reply

__all__ = [
    "ListFilter",
    "ListQuery",
    "Name",
    "Namespace",
    "ObjectView",
    "PageQuery",
    "StockNamespaceQuery",
    "Word",
    "after_cursor",
    "list_reply",
    "object_fields",
    "phase_of",
]

K = TypeVar("K", bound=TypedObject)

_DEFAULT_LIMIT: Final = 100

Name = Annotated[
    str,
    Length(minimum=1, maximum=253),
    Pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
]
Namespace = Annotated[str, Length(minimum=1, maximum=63), Pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
Word = Annotated[str | None, Length(minimum=1, maximum=63)]


@frozen(kw_only=True)
class ObjectView(Struct):
    """Spec and status of an object. Fields without a value are omitted."""

    name: str
    """Its name."""
    namespace: str
    """Its namespace."""
    spec_name: str | None = None
    """Name of the flavour."""
    image: str | None = None
    """Container image."""
    cpu: int | str | None = None
    """CPUs of each unit."""
    memory: int | str | None = None
    """Memory of each unit."""
    gpu: int | None = None
    """GPUs of each unit."""
    gpu_type: str | None = None
    """Model of the GPUs."""
    template: UnitTemplate | None = None
    """Command, environment, ports and readiness probe of the container."""
    image_pull_secrets: tuple[PullSecret, ...] = ()
    """Secrets with the credentials for the image's registry."""
    labels: FrozenDict[str, str] = EMPTY
    """Its labels."""
    phase: str | None = None
    """Ready, Progressing or Failed; a pool that is scaled to zero is Empty."""
    reason: str | None = None
    """Reason of the Ready condition, in one word."""
    message: str | None = None
    """Message of the Ready condition."""
    generation: int | None = None
    """Generation of the spec; it increases with every change."""
    observed_generation: int | None = None
    """The generation that was last reconciled."""
    last_sync_time: str | None = None
    """When the status last changed."""
    operation_id: str | None = field(default=None, metadata=wire("operationID"))
    """The operationID of the request that created it."""
    uid: str | None = None
    """Distinguishes it from a later object of the same name."""
    resource_version: str | None = None
    """The version of this state."""
    created_at: str | None = None
    """When it was created."""
    deleted: bool | None = None
    """True if the object has been deleted since: in the response to a request that is sent again."""


@frozen
class PageQuery(Struct):
    """Which page of a list."""

    limit: Annotated[int, Range(minimum=1, maximum=500)] = _DEFAULT_LIMIT
    """Maximum number of items on a page."""
    cursor: Annotated[str | None, Length(maximum=1024)] = None
    """The `next` of the previous page."""


@frozen
class ListQuery(PageQuery):
    """Which units or pools."""

    namespace: Namespace | None = None
    """Only objects in this namespace."""
    label_selector: Annotated[str | None, Length(maximum=1024)] = None
    """Only objects whose labels match, such as `tier=gold,env!=test`."""
    phase: Word = None
    """Only objects in this phase: Ready, Progressing, Failed, or Empty (pools only)."""
    spec_name: Word = None
    """Only objects of this flavour."""


@frozen
class StockNamespaceQuery(Struct):
    """Which stock namespace an object is in."""

    namespace: Namespace | None = None
    """The stock namespace of the object. Defaults to the first stock namespace."""


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
    """The fields of `ObjectView`."""
    meta, spec, status = found.metadata, found.spec, found.status
    ready = find_condition(status.conditions, READY_CONDITION)
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "spec_name": spec.spec_name,
        "image": spec.image,
        "cpu": spec.cpu,
        "memory": spec.memory,
        "gpu": spec.gpu,
        "gpu_type": spec.gpu_type,
        "template": spec.template,
        "image_pull_secrets": spec.image_pull_secrets,
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
