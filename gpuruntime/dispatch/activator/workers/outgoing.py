"""Frames to a worker, several in one write.

aiohttp writes each WebSocket message by itself, and a system call costs more than all else that is done for a small
frame. Frames that wait together are joined here: RFC 6455, binary messages of a server, final and not masked.
"""

import asyncio
from collections import deque
from typing import Final

from aiohttp import web

__all__ = ["send_all"]

_BINARY: Final = 0x82
_SMALL: Final = 16 * 1024
_MOST_JOINED: Final = 64 * 1024


async def send_all(socket: web.WebSocketResponse, transport: asyncio.Transport | None, unsent: deque[bytes]) -> None:
    """Send all frames in order, and return when the worker has taken most of them.

    Raises:
        ConnectionError: the connection is lost.
    """
    while unsent:
        joined = _take_small(unsent)
        if joined and transport is not None and not transport.is_closing():
            transport.write(joined)
        # The last one goes through aiohttp, which waits while the peer does not read.
        await socket.send_bytes(unsent.popleft())


def _take_small(unsent: deque[bytes]) -> bytes:
    """Small frames from the front, as bytes of the wire; at least one frame is left."""
    parts, size = list[bytes](), 0
    while len(unsent) > 1 and len(unsent[0]) < _SMALL and size < _MOST_JOINED:
        frame = unsent.popleft()
        parts += (_head(len(frame)), frame)
        size += len(frame)
    return b"".join(parts)


def _head(length: int) -> bytes:
    if length < 126:
        return bytes((_BINARY, length))
    return bytes((_BINARY, 126)) + length.to_bytes(2, "big")  # a small frame has less than 65,536 bytes
