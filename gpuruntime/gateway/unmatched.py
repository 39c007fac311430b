"""The response to requests that no route matches."""

from aiohttp import web

from gpuruntime.endpoints.server.errors import CODES, ApiError

__all__ = ["unmatched"]

_READS = frozenset({"GET", "HEAD"})


async def unmatched(request: web.Request) -> web.StreamResponse:
    """404 for a read, 405 for every other method: nothing here can be written.

    Raises:
        ApiError: always.
    """
    if request.method not in _READS:
        raise ApiError(405, CODES[405], "expected GET or HEAD: files are read-only", headers={"Allow": "GET, HEAD"})
    raise ApiError(404, CODES[404], "there is no such route")
