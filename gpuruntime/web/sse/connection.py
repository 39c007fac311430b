"""The connection of an event stream, with small buffers and detection of stalled clients."""

import asyncio
import socket
from contextlib import suppress
from typing import Final

from aiohttp import web

__all__ = ["StalledError", "StreamConnection"]

# Buffered bytes for one client, in this process and in the kernel. There may be thousands of clients.
_BUFFERED_BYTES: Final = 16 * 1024
_KERNEL_BYTES: Final = 64 * 1024
_LEAST_PROGRESS: Final = 2 * 1024
_FAREWELL_SECONDS: Final = 1.0


class StalledError(Exception):
    """The client does not read."""


class StreamConnection:
    """Writes an event stream to its client, with backpressure.

    Guarantees:
        Nothing is written while more than a few kilobytes are buffered. A client that reads almost nothing within
        `stalled` seconds is given up; a client that reads slowly is not.
    """

    def __init__(self, request: web.Request, response: web.StreamResponse, stalled: float) -> None:
        self._request = request
        self._response = response
        self._stalled = stalled
        self._sending: asyncio.Task[None] | None = None
        if request.transport is not None:
            request.transport.set_write_buffer_limits(high=_BUFFERED_BYTES, low=0)
            wire = request.transport.get_extra_info("socket")
            with suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)

    async def send(self, chunk: bytes) -> None:
        """Write, and return when there is room for more.

        Raises:
            StalledError: the client does not read.
            ConnectionError: the client disconnected.
        """
        # No asyncio.timeout here: all writers wait for one future of aiohttp, and cancelling one cancels that future.
        self._sending = asyncio.create_task(self._send(chunk))
        buffered = self.buffered + len(chunk)
        try:
            while not (await asyncio.wait((self._sending,), timeout=self._stalled))[0]:
                if buffered - self.buffered < _LEAST_PROGRESS:
                    raise StalledError
                buffered = self.buffered
            self._sending.result()
        except asyncio.CancelledError:
            self._sending.cancel()
            raise

    async def _send(self, chunk: bytes) -> None:
        await self._response.write(chunk)
        await self._request.writer.drain()

    @property
    def buffered(self) -> int:
        """Bytes that the kernel has not accepted yet."""
        transport = self._request.transport
        return 0 if transport is None else transport.get_write_buffer_size()

    async def drop(self, reason: str) -> None:
        """Close the connection, with the reason as a last comment if there is room for it within a moment."""
        if self._sending is not None:
            done, _ = await asyncio.wait((self._sending,), timeout=_FAREWELL_SECONDS)
            if done and self._sending.exception() is None:
                await self._response.write(f": {reason}\n\n".encode())
            self._sending.cancel()
        self.close()

    def close(self) -> None:
        """Close the connection, and discard what is buffered."""
        if self._request.transport is not None:
            if self.buffered:
                self._request.transport.abort()
            else:
                self._request.transport.close()
