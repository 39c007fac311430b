"""/operator/jobs: Operations as callers see them, the records of write requests.

A job that succeeded is stored, which does not mean that it is ready.
"""

import asyncio
from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import Any, Final

from attrs import evolve

from gpuruntime.api.namespaces import STOCK_NAMESPACE
from gpuruntime.api.operation import (
    PENDING,
    SEED_STOCK_UNITS,
    SUCCEEDED,
    Operation,
    operation_name,
)
from gpuruntime.api.rest.jobs import JobsQuery, JobView
from gpuruntime.endpoints.server.headers import page_reply, read_headers
from gpuruntime.endpoints.server.route import Call, Reply, Response, Route, Scope
from gpuruntime.meta import EMPTY, ObjectKey
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.operations.submit import Performed
from gpuruntime.service.reads.reader import ReadPage, Reads
from gpuruntime.service.stock.names import batch_name
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.object_models import after_cursor

__all__ = ["finished_job_view", "job_routes", "job_view", "newest_first"]

_EVERYTHING: Final = 10**9
_CHUNK: Final = 1000


def job_view(operation: Operation) -> JobView:
    """The view of an Operation."""
    spec, status, created = operation.spec, operation.status, operation.metadata.creation_timestamp
    result, error = status.result, status.error
    name, namespace = _requested_object(operation) if result is None else (result.name, result.namespace)
    return JobView(
        spec.operation_id,
        spec.operation_id,
        spec.type,
        status.state or PENDING,
        error=None if error is None else error.message or None,
        error_code=None if error is None else error.code,
        progress=status.progress,
        object_name=name or None,
        object_namespace=namespace or None,
        created_at=created or None,
        updated_at=status.updated_at or created or None,
    )


def finished_job_view(performed: Performed, *, deleted: bool) -> JobView:
    """The view of a request that was carried out; the status of its Operation may not be written yet."""
    result = performed.result
    return evolve(
        job_view(performed.operation),
        status=SUCCEEDED,
        object_name=result.name,
        object_namespace=result.namespace,
        deleted=True if deleted else None,
    )


def _requested_object(operation: Operation) -> tuple[str, str]:
    """Name and namespace of the object of a request that has not ended."""
    request: Mapping[str, Any] = operation.spec.request or EMPTY
    if operation.spec.type == SEED_STOCK_UNITS and "reservation" in request:
        batch = batch_name(request["reservation"].get("specName", ""), operation.spec.operation_id)
        return batch, request.get("namespace", STOCK_NAMESPACE)
    return request.get("name", ""), request.get("namespace", "")


def job_routes(service: Service) -> tuple[Route, ...]:
    """The routes of jobs."""
    operations = service.operations

    async def list_jobs(call: Call) -> Reply:
        """List jobs in pages, the newest first: the `next` of a page is the `cursor` of the following one.

        Jobs that have ended are deleted after a while, by default after a day.
        """
        query: JobsQuery = call.query
        after = after_cursor(query.cursor)

        def matches(operation: Operation) -> bool:
            has_type = query.type in {None, operation.spec.type}
            has_status = query.status in {None, operations.as_known(operation).status.state or PENDING}
            return has_type and has_status and (after is None or _sort_key(operation) < after)

        page = await newest_first(service.job_reads, matches, query.limit, call.at_least)
        return page_reply(page, lambda operation: job_view(operations.as_known(operation)))

    async def get(call: Call) -> Reply:
        """Get a job. A job that succeeded means that its objects are stored, not that they are ready."""
        operation_id = call.path_params["operationID"]
        key = ObjectKey(operations.namespace, operation_name(operation_id))
        try:
            found = await service.job_reads.get_newest(key, call.at_least, has_ended)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(f"job {operation_id}: not found") from error
        return Reply(200, job_view(operations.as_known(found.object)), read_headers(found))

    return (
        Route(
            *("GET", "/operator/jobs", list_jobs, "List jobs", Scope.READ),
            name="listJobs",
            query=JobsQuery,
            responses=(Response(200, JobView, "A page of jobs, the newest first.", is_list=True),),
        ),
        Route(
            *("GET", "/operator/jobs/{operationID}", get, "Get a job", Scope.READ),
            name="getJob",
            responses=(Response(200, JobView, "The job."),),
            errors=((404, "job_not_found"),),
        ),
    )


async def newest_first(
    reads: Reads[Operation], matches: Callable[[Operation], bool], limit: int, at_least: str = ""
) -> ReadPage[Operation]:
    """Up to `limit` matching Operations, the newest first.

    It yields to the event loop: there may be many Operations, and the cache has them in another order.

    Raises:
        NotRunningError, KubeError: see `Reads.page`.
    """
    # If the cache is behind, everything is read live, and only once.
    size = _EVERYTHING if at_least else _CHUNK
    first = chunk = await reads.page(lambda _: True, limit=size, at_least=at_least)
    found = nlargest(limit + 1, filter(matches, chunk.items), key=_sort_key)
    while chunk.next is not None:
        await asyncio.sleep(0)
        chunk = await reads.page(lambda _: True, limit=size, after=chunk.next)
        found = nlargest(limit + 1, (*found, *filter(matches, chunk.items)), key=_sort_key)
    shown = tuple(found[:limit])
    return ReadPage(shown, first.version, first.age, _sort_key(shown[-1]) if len(found) > limit else None)


def _sort_key(operation: Operation) -> ObjectKey:
    """The position of a job in the list. It never changes, so that pages stay consistent."""
    return ObjectKey(operation.metadata.creation_timestamp or "", operation.metadata.name)
