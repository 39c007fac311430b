"""The header Expect: all that can be expected is that a body is asked for, and that is so without our doing."""

from aiohttp import web

from gpuruntime.web.server.envelope import refused
from gpuruntime.web.server.errors import CODES, ApiError

__all__ = ["expecting"]


async def expecting(request: web.Request) -> web.StreamResponse | None:
    """Refuse what is expected: `100-continue` is answered by the site when the body is read, and is not seen here."""
    message = f"header Expect: expected 100-continue, or none, got {request.headers.get('Expect', '')[:80]!r}"
    response = refused(ApiError(417, CODES[400], message))
    response.force_close()
    return response
