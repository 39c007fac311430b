"""What resources have in common: filters, cursors, and the fields of views."""

from collections.abc import Callable
from typing import Any, Protocol

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.gpustorage import GPUStorage
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.reasons import PENDING, PROGRESSING, READY_CONDITION
from gpuruntime.api.rest.queries import FlavourQuery, ObjectsQuery
from gpuruntime.api.stockpool import StockPool
from gpuruntime.endpoints.server.errors import Fault, invalid
from gpuruntime.meta import Condition, ObjectKey, ObjectMeta, SelectorError, find_condition, parse_selector
from gpuruntime.service.reads.reader import CursorError, parse_cursor

__all__ = ["after_cursor", "flavour_filter", "object_fields", "object_filter", "phase_of"]


class _Status(Protocol):
    @property
    def phase(self) -> str | None: ...
    @property
    def observed_generation(self) -> int | None: ...
    @property
    def last_sync_time(self) -> str | None: ...
    @property
    def conditions(self) -> tuple[Condition, ...]: ...


class _Reconciled(Protocol):
    """An object with the status that all kinds of the product have."""

    @property
    def metadata(self) -> ObjectMeta: ...
    @property
    def status(self) -> _Status: ...


def object_filter(query: ObjectsQuery) -> Callable[[_Reconciled], bool]:
    """Whether an object has the namespace, labels and phase that a query asks for.

    Raises:
        ApiError: 400 for a malformed label selector.
    """
    try:
        labels = parse_selector(query.label_selector or "")
    except SelectorError as error:
        raise invalid(Fault("?labelSelector", str(error))) from error

    def matches(found: _Reconciled) -> bool:
        meta = found.metadata
        return (
            query.namespace in {None, meta.namespace}
            and query.phase in {None, phase_of(found)}
            and labels.matches(meta.labels)
        )

    return matches


def flavour_filter(query: FlavourQuery) -> Callable[[GPUUnit | StockPool | GPUFunction], bool]:
    """As `object_filter`, with the flavour.

    Raises:
        ApiError: see `object_filter`.
    """
    matches = object_filter(query)
    return lambda found: query.spec_name in {None, found.spec.spec_name} and matches(found)


def after_cursor(cursor: str | None) -> ObjectKey | None:
    """The key after which a page begins; None for the first page.

    Raises:
        ApiError: 400 for a malformed cursor.
    """
    try:
        return None if cursor is None else parse_cursor(cursor)
    except CursorError as error:
        raise invalid(Fault("?cursor", str(error))) from error


def phase_of(found: _Reconciled) -> str:
    """The phase of an object; before it is first reconciled that of its kind, Progressing or Pending."""
    return found.status.phase or (PENDING if isinstance(found, GPUStorage) else PROGRESSING)


def object_fields(found: _Reconciled) -> dict[str, Any]:
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
