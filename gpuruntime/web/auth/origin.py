"""Where a request comes from: whether a web page of somebody else may have made a browser on this machine send it.

It matters where a request needs no credentials, because then the browser's place on the network is the credential.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from gpuruntime.control.debug.pages import loopback_only
from gpuruntime.web.server.errors import CODES, ApiError

__all__ = ["refuse_other_machines", "refuse_other_sites"]

# "none" is what a person typed into the address bar.
_OURS: Final = frozenset({"same-origin", "none"})
_OF_PROXIES: Final = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host")


async def refuse_other_machines(request: web.Request) -> None:
    """Pass if the request came over the loopback interface, and calls it by its own name.

    The latter keeps out a page whose name was given the address 127.0.0.1 after the browser had loaded it. A proxy on
    this machine that says to speak for somebody is not let in.

    Raises:
        ApiError: 403.
    """
    if not await loopback_only(request):
        raise _forbidden(
            "the header Host and the sender: expected localhost or a loopback address, as nobody needs credentials here"
        )
    forwarded = next((name for name in _OF_PROXIES if name in request.headers), None)
    if forwarded is not None:
        raise _forbidden(f"the header {forwarded}: expected none, as nobody needs credentials here")


def refuse_other_sites(headers: Mapping[str, str]) -> None:
    """Pass if no browser sent the request, or a page of our own did.

    Raises:
        ApiError: 403.
    """
    site = headers.get("Sec-Fetch-Site")
    if site is not None and site.lower() not in _OURS:
        raise _forbidden(f"the header Sec-Fetch-Site is {site[:40]!r}: expected a page of this site, or no browser")
    origin = headers.get("Origin")
    if origin is not None and _place(origin) != headers.get("Host", "").lower():
        raise _forbidden(f"the header Origin is {origin[:80]!r}: expected a page of this site, or no browser")


def _place(origin: str) -> str:
    """Host and port of an origin; "" of one that has none, such as "null"."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _forbidden(message: str) -> ApiError:
    return ApiError(403, CODES[403], message)
