"""What is answered to bytes on a connection that are no HTTP request: no application gets to see them.

An application may still say it in its own words::

    app[UNREADABLE] = Unreadable(lambda status, reason: web.json_response({"error": reason}, status=status))
"""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from attrs import frozen

__all__ = ["UNREADABLE", "Unreadable"]


@frozen
class Unreadable:
    """How an application answers what it does not get to see: from a status and a reason, which quotes what came."""

    answer: Callable[[int, str], web.Response]


UNREADABLE: Final = web.AppKey("gpuruntime_unreadable", Unreadable)
