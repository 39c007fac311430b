"""The HTTP routes of the result store, for runtime-api. They need scope read; there is nothing to write.

`gpuruntime.api.invocations.archive` documents the routes and has their types.
"""

from typing import Final

from aiohttp import web
from attrs import frozen

from gpuruntime.api.invocations import (
    ARCHIVE_PREFIX,
    RESULT_EXPIRED,
    Archive,
    ArchiveCursorError,
    ArchiveQuery,
    ArchiveUnavailableError,
    InvocationKey,
)
from gpuruntime.control.serving import ERROR_RESPONSE
from gpuruntime.endpoints.auth.access_control import AccessControl, require
from gpuruntime.endpoints.server.errors import CODES, ApiError, Fault, invalid
from gpuruntime.endpoints.server.query import check_query_length, parse_query
from gpuruntime.endpoints.server.response_format import (
    add_request_id,
    bad_request_response,
    formatted,
    success_response,
)
from gpuruntime.endpoints.server.route import Page, Reply, Scope

__all__ = ["ArchiveRoutes", "mount_archive"]

_ONE: Final = f"{ARCHIVE_PREFIX}/invocations/{{namespace}}/{{function}}/{{id}}"
_RETRY: Final = {"Retry-After": "2"}


@frozen
class ArchiveRoutes:
    """Serves an archive.

    Guarantees:
        Nothing is read for a caller without scope read. 503 means that the database cannot be read now; 404 that it was
        read, and has no such invocation.
    """

    archive: Archive
    access: AccessControl

    async def get(self, request: web.Request) -> web.StreamResponse:
        """An invocation."""
        key = await self._key(request)
        try:
            found = await self.archive.get(key)
        except ArchiveUnavailableError as error:
            raise _unavailable(error) from error
        if found is None:
            raise _missing(key)
        return success_response(Reply(200, found), request)

    async def body(self, request: web.Request) -> web.StreamResponse:
        """What a function returned, as bytes without a type: the record has that. No browser takes it for a page."""
        key = await self._key(request)
        try:
            body = await self.archive.body(key)
            known = body is not None or await self.archive.get(key) is not None
        except ArchiveUnavailableError as error:
            raise _unavailable(error) from error
        if body is None and known:
            raise ApiError(410, RESULT_EXPIRED, f"invocation {key}: its result has expired")
        if body is None:
            raise _missing(key)
        return web.Response(body=body, content_type="application/octet-stream", headers={"Cache-Control": "no-store"})

    async def list(self, request: web.Request) -> web.StreamResponse:
        """A page of invocations, newest first."""
        await self._admit(request)
        check_query_length(request.rel_url.raw_query_string)
        query = parse_query(request.query, ArchiveQuery)
        try:
            page = await self.archive.list(query)
        except ArchiveCursorError as error:
            raise invalid(Fault("?cursor", str(error))) from error
        except ArchiveUnavailableError as error:
            raise _unavailable(error) from error
        return success_response(Reply(200, Page(page.items, page.next)), request)

    async def unmatched(self, _request: web.Request) -> web.StreamResponse:
        """Everything else."""
        raise ApiError(404, CODES[404], "there is no such route")

    async def _key(self, request: web.Request) -> InvocationKey:
        await self._admit(request)
        info = request.match_info
        return InvocationKey(info["namespace"], info["function"], info["id"])

    async def _admit(self, request: web.Request) -> None:
        require(await self.access.authenticate(request), Scope.READ)


def mount_archive(app: web.Application, routes: ArchiveRoutes) -> None:
    """Serve the archive in an application. All errors have one format."""
    app.middlewares.append(formatted)
    app.on_response_prepare.append(add_request_id)
    app[ERROR_RESPONSE] = bad_request_response
    app.router.add_get(f"{ARCHIVE_PREFIX}/invocations", routes.list)
    app.router.add_get(_ONE, routes.get)
    app.router.add_get(f"{_ONE}/body", routes.body)
    app.router.add_route("*", "/{path:.*}", routes.unmatched)


def _missing(key: InvocationKey) -> ApiError:
    return ApiError(404, CODES[404], f"invocation {key}: it is not in the archive")


def _unavailable(error: ArchiveUnavailableError) -> ApiError:
    return ApiError(503, CODES[503], str(error), headers=_RETRY)
