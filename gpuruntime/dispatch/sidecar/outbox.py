"""Frames on their way to the activator: what was sent while no connection was there is not kept."""

import asyncio
from collections import deque

from gpuruntime.dispatch.protocol import WorkerFrame

__all__ = ["Outbox"]


class Outbox:
    """Frames in order, for the one connection that sends them.

    Guarantees:
        `put` never waits, so that who ends a run is not held up by a slow activator. Frames of one connection never
        reach the next one: each connection begins with all that the activator has to know.
    """

    def __init__(self) -> None:
        self._frames: deque[tuple[WorkerFrame, bytes]] = deque()
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._is_open = False

    def open(self) -> None:
        """Take frames from now on."""
        self._is_open = True

    def close(self) -> None:
        """Take none, and forget those that were not sent."""
        self._is_open = False
        self._frames.clear()
        self._filled.clear()
        self._emptied.set()

    def put(self, frame: WorkerFrame, body: bytes = b"") -> bool:
        """Send a frame; False, and nothing happens, without a connection."""
        if self._is_open:
            self._frames.append((frame, body))
            self._emptied.clear()
            self._filled.set()
        return self._is_open

    async def first(self) -> tuple[WorkerFrame, bytes]:
        """The first frame, which stays until it is `sent`."""
        while not self._frames:
            self._filled.clear()
            await self._filled.wait()
        return self._frames[0]

    def sent(self) -> None:
        """The first frame was sent."""
        if self._frames:
            self._frames.popleft()
        if not self._frames:
            self._emptied.set()

    async def flush(self) -> None:
        """Wait until all frames are sent, or there is no connection."""
        await self._emptied.wait()
