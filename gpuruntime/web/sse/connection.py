"""The way to one follower, on which little waits to be read."""

import asyncio
import socket
from contextlib import suppress
from typing import Final

from aiohttp import web

__all__ = ["Connection", "StalledError"]

# What waits for a follower, in this process and in the kernel: it is held as often as there are followers.
_WAITING_BYTES: Final = 16 * 1024
_KERNEL_BYTES: Final = 64 * 1024
_LEAST_TAKEN: Final = 2 * 1024
_FAREWELL_SECONDS: Final = 1.0


class StalledError(Exception):
    """The follower does not read."""


class Connection:
    """Writes a stream to its follower.

    Guarantees:
        Nothing is written while more than a few kilobytes wait. A follower who takes next to nothing of what waits in
        `stalled` seconds is not waited for; one who reads slowly is.
    """

    def __init__(self, request: web.Request, response: web.StreamResponse, stalled: float) -> None:
        self._request = request
        self._response = response
        self._stalled = stalled
        self._sending: asyncio.Task[None] | None = None
        if request.transport is not None:
            request.transport.set_write_buffer_limits(high=_WAITING_BYTES, low=0)
            wire = request.transport.get_extra_info("socket")
            with suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)

    async def send(self, chunk: bytes) -> None:
        """Write, and return when there is room for more.

        Raises:
            StalledError: the follower does not read.
            ConnectionError: it is gone.
        """
        # Not a timeout: all who wait for room wait for one future of aiohttp, and who is cancelled cancels it for good.
        self._sending = asyncio.create_task(self._send(chunk))
        waiting = self.waiting + len(chunk)
        try:
            while not (await asyncio.wait((self._sending,), timeout=self._stalled))[0]:
                if waiting - self.waiting < _LEAST_TAKEN:
                    raise StalledError
                waiting = self.waiting
            self._sending.result()
        except asyncio.CancelledError:
            self._sending.cancel()
            raise

    async def _send(self, chunk: bytes) -> None:
        await self._response.write(chunk)
        await self._request.writer.drain()

    @property
    def waiting(self) -> int:
        """How many bytes wait to be taken by the kernel."""
        transport = self._request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def drop(self, words: str) -> None:
        """End the connection, with a last comment if there is room for it within a moment."""
        if self._sending is not None:
            done, _ = await asyncio.wait((self._sending,), timeout=_FAREWELL_SECONDS)
            if done and self._sending.exception() is None:
                await self._response.write(f": {words}\n\n".encode())
            self._sending.cancel()
        self.end()

    def end(self) -> None:
        """End the connection; what waits is thrown away."""
        if self._request.transport is not None:
            if self.waiting:
                self._request.transport.abort()
            else:
                self._request.transport.close()
