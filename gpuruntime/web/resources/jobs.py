"""Jobs: the records of write requests."""

import asyncio
from collections.abc import Callable
from heapq import nlargest
from typing import Final

from attrs import frozen

from gpuruntime.api.operation import PENDING, Operation, operation_name
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import ObjectNotFoundError
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.reads.paging import cursor_of
from gpuruntime.service.reads.reader import ReadPage, Reads
from gpuruntime.service.wiring import Service
from gpuruntime.web.resources.job_views import JobView, job_view
from gpuruntime.web.resources.list_queries import JobsQuery, after_cursor
from gpuruntime.web.server.reply_headers import of_page, of_seen
from gpuruntime.web.server.route import Answer, Call, Page, Reply, Route, Scope

__all__ = ["Jobs", "newest_of"]

_EVERYTHING: Final = 10**9
_AT_A_TIME: Final = 1000


@frozen
class Jobs:
    """The handlers of /operator/jobs."""

    service: Service

    def routes(self) -> tuple[Route, ...]:
        """All routes of jobs."""
        return (
            Route(
                *("GET", "/operator/jobs", self.list_jobs, "List jobs", Scope.READ),
                name="listJobs",
                query=JobsQuery,
                answers=(Answer(200, JobView, "A page of jobs, the newest first.", is_list=True),),
            ),
            Route(
                *("GET", "/operator/jobs/{operationID}", self.get, "Get a job", Scope.READ),
                name="getJob",
                answers=(Answer(200, JobView, "The job."),),
                refusals=((404, "job_not_found"),),
            ),
        )

    async def list_jobs(self, call: Call) -> Reply:
        """The jobs that match, the newest first, page by page: `next` of a page is the `cursor` of the following one.

        Jobs that have ended are forgotten after a while, a day unless the process is told otherwise.
        """
        query: JobsQuery = call.query
        after = after_cursor(query.cursor)
        as_known = self.service.operations.as_known

        def matches(operation: Operation) -> bool:
            is_asked_for = query.type in {None, operation.spec.type}
            is_so_far = query.status in {None, as_known(operation).status.state or PENDING}
            return is_asked_for and is_so_far and (after is None or _place(operation) < after)

        page = await newest_of(self.service.job_reads, matches, query.limit, call.at_least)
        following = "" if page.next is None else cursor_of(page.next)
        return Reply(
            200, Page(tuple(job_view(as_known(operation)) for operation in page.items), following), of_page(page)
        )

    async def get(self, call: Call) -> Reply:
        """How far a request is. That it succeeded means that what it asks for is stored, not that it is ready."""
        operation_id = call.names["operationID"]
        key = ObjectKey(self.service.operations.namespace, operation_name(operation_id))
        try:
            seen = await self.service.job_reads.get_newest(key, call.at_least, has_ended)
        except ObjectNotFoundError as error:
            raise ObjectNotFoundError(f"job {operation_id}: found none of this operationID") from error
        return Reply(200, job_view(self.service.operations.as_known(seen.object)), of_seen(seen))


async def newest_of(
    reads: Reads[Operation], matches: Callable[[Operation], bool], limit: int, at_least: str = ""
) -> ReadPage[Operation]:
    """The Operations that match, the newest first, at most so many.

    Others are served meanwhile: there may be very many, and they are kept in another order.

    Raises:
        NotRunningError, KubeError: see `Reads.page`.
    """
    # What the cache does not show yet is read live as a whole, and only once.
    size = _EVERYTHING if at_least else _AT_A_TIME
    first = part = await reads.page(lambda _: True, limit=size, at_least=at_least)
    found = nlargest(limit + 1, filter(matches, part.items), key=_place)
    while part.next is not None:
        await asyncio.sleep(0)
        part = await reads.page(lambda _: True, limit=size, after=part.next)
        found = nlargest(limit + 1, (*found, *filter(matches, part.items)), key=_place)
    shown = tuple(found[:limit])
    return ReadPage(shown, first.version, first.age, _place(shown[-1]) if len(found) > limit else None)


def _place(operation: Operation) -> ObjectKey:
    """Where a job is in the list: it never moves, whatever becomes of it."""
    return ObjectKey(operation.metadata.creation_timestamp or "", operation.metadata.name)
