"""Sockets of an HTTP client that are tracked until they are closed.

aiohttp closes the TLS connection of an abandoned response in the background, and closing the session does not wait for
it. Tracking the sockets makes it possible to wait, and to leave nothing behind.
"""

import socket
from collections.abc import Callable
from contextlib import suppress

from aiohttp import AddrInfoType

from gpuruntime.testing.change_signal import ChangeSignal

__all__ = ["TrackedSockets"]


class _Socket(socket.socket):
    def __init__(self, family: int, kind: int, protocol: int, closed: "Callable[[_Socket], None]") -> None:
        super().__init__(family, kind, protocol)
        self._closed_callback = closed

    def close(self) -> None:
        super().close()
        self._closed_callback(self)


class TrackedSockets:
    """Creates the sockets of a `TCPConnector`: pass `create` as its `socket_factory`."""

    def __init__(self) -> None:
        self._open: set[_Socket] = set()
        self._changes = ChangeSignal()

    def create(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = _Socket(family, kind, protocol, self._forget)
        self._open.add(made)
        return made

    async def close(self) -> None:
        """Shut down the sockets that are still open, whatever the peer does, and wait until they are closed.

        Call it after the session was closed, so that no new sockets are opened.
        """
        for still_open in self._open:
            with suppress(OSError):
                still_open.shutdown(socket.SHUT_RDWR)
        await self._changes.until(lambda: not self._open)

    def _forget(self, closed: _Socket) -> None:
        self._open.discard(closed)
        self._changes.announce()
