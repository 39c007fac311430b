"""Where the bench and a contender that goes on until it is told to end meet.

The contender asks for READY when it has nothing more to do, and is answered at once. Then it asks for DONE, and is
answered when the bench has seen what it wanted: what the contender has taken between the two is its result.
"""

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiohttp import web

from gpuruntime.testing.loopback_http import LoopbackServer

__all__ = ["Meeting"]


class Meeting:
    """One meeting with one contender, open while its block runs."""

    def __init__(self) -> None:
        self._server = LoopbackServer(self._handle)
        self._ready = asyncio.Event()
        self._done = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    def environment(self) -> Mapping[str, str]:
        """What a contender that is started now has to know: both addresses, and when it was started."""
        url = self._server.url
        return {"READY": f"{url}/ready", "DONE": f"{url}/done", "BEGAN": repr(time.time())}

    async def ready(self) -> None:
        """Returns when the contender is ready."""
        await self._ready.wait()

    def end(self) -> None:
        """Let the contender finish."""
        self._done.set()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/ready":
            self._ready.set()
            return web.Response()
        if request.path == "/done":
            await self._done.wait()
            return web.Response()
        return web.Response(status=404)
