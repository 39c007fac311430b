"""The header Expect: whoever has a body to send may ask first whether it is wanted."""

from typing import Final

from aiohttp import HttpVersion11, web

from gpuruntime.web.bodies import LARGEST_BODY
from gpuruntime.web.errors import CODES, ApiError
from gpuruntime.web.frame_envelope import refused

__all__ = ["expecting"]

_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


async def expecting(request: web.Request) -> web.StreamResponse | None:
    """Ask for the body, unless it is too large anyway: then it is refused before it is sent.

    What else somebody may expect is refused.
    """
    expected = request.headers.get("Expect", "")
    if expected.lower() != "100-continue":
        message = f"header Expect: expected 100-continue, or none, got {expected[:80]!r}"
        response = refused(ApiError(417, CODES[400], message))
        response.force_close()
        return response
    if request.version >= HttpVersion11 and (request.content_length or 0) <= LARGEST_BODY:
        await request.writer.write(_GO_ON)
        # The answer itself has not begun.
        request.writer.output_size = 0
    return None
