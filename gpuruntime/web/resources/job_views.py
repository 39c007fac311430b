"""Operations as callers see them: jobs. One that succeeded is stored, which does not mean that it is ready."""

from collections.abc import Mapping
from typing import Any

from attrs import evolve, field, frozen

from gpuruntime.api.namespaces import STOCK_NAMESPACE
from gpuruntime.api.operation import SEED_STOCK_UNITS, SUCCEEDED, Operation, OperationProgress
from gpuruntime.meta import EMPTY, Struct, wire
from gpuruntime.service.operations.jobs import job_of
from gpuruntime.service.operations.operations import Performed
from gpuruntime.service.stock.names import batch_name

__all__ = ["JobView", "finished_job_view", "job_view"]


@frozen
class JobView(Struct):
    """How far a request is."""

    id: str
    """The operationID."""
    operation_id: str = field(metadata=wire("operationID"))
    """The caller's name for the request."""
    type: str
    """What is done, such as seed_stock_units."""
    status: str
    """pending, running, succeeded (what was asked for is stored, which does not mean that it is ready) or failed."""
    error: str | None = None
    """Why it failed."""
    error_code: str | None = None
    """Why it failed, in one word."""
    progress: OperationProgress | None = None
    """How far a request of many steps is."""
    object_name: str | None = None
    """The object that the request is about; of a batch of stock units, what their names begin with."""
    object_namespace: str | None = None
    """Namespace of the object."""
    created_at: str | None = None
    """When the request was recorded."""
    updated_at: str | None = None
    """When the job last changed."""
    deleted: bool | None = None
    """Whether the object is gone: what a request says that is sent again after that."""


def job_view(operation: Operation) -> JobView:
    """What callers see of an Operation."""
    job, error = job_of(operation), operation.status.error
    name, namespace = job.object_name, job.object_namespace
    if not name:
        name, namespace = _asked_for(operation)
    return JobView(
        job.operation_id,
        job.operation_id,
        job.type,
        job.status,
        error=job.error or None,
        error_code=None if error is None else error.code,
        progress=operation.status.progress,
        object_name=name or None,
        object_namespace=namespace or None,
        created_at=job.created_at or None,
        updated_at=job.updated_at or None,
    )


def finished_job_view(performed: Performed, *, gone: bool) -> JobView:
    """What callers see of a request that was carried out; it may not be written down in the Operation yet."""
    result = performed.result
    seen = job_view(performed.operation)
    return evolve(
        seen,
        status=SUCCEEDED,
        object_name=result.name,
        object_namespace=result.namespace,
        deleted=True if gone else None,
    )


def _asked_for(operation: Operation) -> tuple[str, str]:
    """Name and namespace of what a request is about that has not ended."""
    request: Mapping[str, Any] = operation.spec.request or EMPTY
    if operation.spec.type == SEED_STOCK_UNITS and "envelope" in request:
        batch = batch_name(request["envelope"].get("specName", ""), operation.spec.operation_id)
        return batch, request.get("namespace", STOCK_NAMESPACE)
    return request.get("name", ""), request.get("namespace", "")
