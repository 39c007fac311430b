"""The rendezvous of the bench with a contender that runs until the bench ends it.

The contender requests READY when it is idle, and is answered at once. Then it requests DONE, and is answered when the
bench has observed the expected state. What the contender consumed between the two is its result.
"""

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from aiohttp import web

from gpuruntime.testing.loopback_http import LoopbackServer

__all__ = ["Rendezvous"]


class Rendezvous:
    """A rendezvous with one contender, for the length of the block."""

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
        """The environment of a contender that is started now: both addresses, and its start time."""
        url = self._server.url
        return {"READY": f"{url}/ready", "DONE": f"{url}/done", "BEGAN": repr(time.time())}

    async def ready(self) -> None:
        """Wait until the contender is ready."""
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
