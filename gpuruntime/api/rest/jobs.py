"""Views and queries of /operator/jobs."""

from typing import Annotated

from attrs import field, frozen

from gpuruntime.api.operation import OperationProgress
from gpuruntime.api.rest.queries import PageQuery, Word
from gpuruntime.meta import Pattern, Struct, wire

__all__ = ["JobView", "JobsQuery"]


@frozen
class JobView(Struct):
    """The progress of a write request."""

    id: str
    """The operationID."""
    operation_id: str = field(metadata=wire("operationID"))
    """The caller's name for the request."""
    type: str
    """Type of the request, such as seed_stock_units."""
    status: str
    """pending, running, succeeded or failed. Succeeded means that the objects are stored, not that they are ready."""
    error: str | None = None
    """Why it failed."""
    error_code: str | None = None
    """Why it failed, in one word."""
    progress: OperationProgress | None = None
    """Progress of a request with many steps."""
    object_name: str | None = None
    """The object of the request; for a batch of stock units, the prefix of their names."""
    object_namespace: str | None = None
    """Namespace of the object."""
    created_at: str | None = None
    """When the request was recorded."""
    updated_at: str | None = None
    """When the job last changed."""
    deleted: bool | None = None
    """True if the object has been deleted since: in the response to a request that is sent again."""


@frozen
class JobsQuery(PageQuery):
    """Which jobs."""

    status: Annotated[str | None, Pattern("^(pending|running|succeeded|failed)$")] = None
    """Only jobs with this status."""
    type: Word = None
    """Only jobs of this type, such as seed_stock_units."""
