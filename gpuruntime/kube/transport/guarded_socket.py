"""A socket transport that calls a guard in the same step in which it hands bytes to the kernel.

The transports of asyncio and uvloop may send later what is written now: when the socket is writable, or at the end of
the loop's iteration. A process that is stopped in between sends after it is continued, however much time has passed.
Here nothing lies between the guard and `send(2)`.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from gpuruntime.kube.errors import NotSentError

__all__ = ["GUARD", "Guard", "GuardedSocket"]

Guard = Callable[[], object]
"""Raises a NotSentError if nothing may be sent now."""

GUARD: Final = "gpuruntime_guard"
"""The name under which a connection's `get_extra_info` returns its GuardedSocket, also through TLS."""

_READ_SIZE: Final = 2**18
_HIGH_WATER: Final = 2**16
# On, for zero seconds: what is not sent yet is discarded, and the peer gets a reset.
_RESET: Final = struct.pack("ii", 1, 0)


class GuardedSocket(asyncio.Transport):
    """A connected stream socket as a transport of any event loop.

    Guarantees:
        The guard is called before each `send(2)`. Once it has raised, nothing more is sent: the connection is reset,
        and `refusal` is what the guard raised. The guard is called after each `send(2)`, too: a connection that sent
        too late is reset at once, and `is_late` is set.

    Caveats:
        The guard is called about 1 µs before the kernel takes the bytes. A process that is stopped within that time
        sends when it is continued. Bytes that the kernel has taken may leave later, if the peer has closed its window.
    """

    # asyncio's mark of transports that `start_tls` may wrap.
    _start_tls_compatible = True

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, protocol: asyncio.BaseProtocol) -> None:
        extra: dict[str, Any] = {"socket": sock, "peername": sock.getpeername(), "sockname": sock.getsockname()}
        super().__init__({**extra, GUARD: self})
        self.refusal: NotSentError | None = None
        self.is_late = False
        self._loop = loop
        self._sock = sock
        self._send = sock.send
        self._guard: Guard | None = None
        self._buffer = bytearray()
        self._high, self._low = _HIGH_WATER, _HIGH_WATER // 4
        self._is_writing_paused = False
        self._is_reading = False
        self._is_closing = False
        self._is_cut = False
        self.set_protocol(protocol)
        self.resume_reading()

    def begin(self, guard: Guard) -> None:
        """Use this guard from now on: a request begins."""
        self._guard = guard

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol: Any = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_cut or not data:
            return
        if self._buffer:
            self._buffer += data
        else:
            sent = self._try_send(data)
            if sent is None or sent == len(data):
                return
            self._buffer += memoryview(data)[sent:]
            self._loop.add_writer(self._sock, self._write_ready)
        if len(self._buffer) > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        return len(self._buffer)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def can_write_eof(self) -> bool:
        return False

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._sock)

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._loop.add_reader(self._sock, self._read_ready)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close after everything that was written has been sent."""
        if not self._is_closing:
            self._is_closing = True
            self.pause_reading()
            if not self._buffer:
                self._cut(None)

    def abort(self) -> None:
        """Close now, and reset the connection."""
        self._reset(None)

    def _try_send(self, data: bytes | bytearray | memoryview) -> int | None:
        """The number of bytes that the kernel took; None if the connection was closed."""
        guard, send = self._guard, self._send
        try:
            if guard is None:
                return send(data)
            guard()
            sent = send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self._cut(error)
            return None
        except NotSentError as refusal:
            self.refusal = refusal
            self._reset(ConnectionAbortedError("the guard of the connection refused to send"))
            return None
        try:
            guard()
        except NotSentError as refusal:
            # Stopped between the guard and the kernel: the server may drop a request whose client is gone.
            self.is_late, self.refusal = True, refusal
            self._reset(ConnectionAbortedError("the connection sent too late"))
            return None
        return sent

    def _write_ready(self) -> None:
        sent = self._try_send(self._buffer)
        if sent is None:
            return
        del self._buffer[:sent]
        if self._is_writing_paused and len(self._buffer) <= self._low:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        if not self._buffer:
            self._loop.remove_writer(self._sock)
            if self._is_closing:
                self._cut(None)

    def _read_ready(self) -> None:
        try:
            if self._is_buffered:
                count = self._sock.recv_into(self._protocol.get_buffer(-1))
                if count:
                    self._protocol.buffer_updated(count)
                    return
            else:
                data = self._sock.recv(_READ_SIZE)
                if data:
                    self._protocol.data_received(data)
                    return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._cut(error)
            return
        self.pause_reading()
        if not self._protocol.eof_received():
            self.close()

    def _force_close(self, error: Exception | None) -> None:
        # asyncio's TLS calls it by this name.
        self._reset(error)

    def _reset(self, error: Exception | None) -> None:
        if not self._is_cut:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._cut(error)

    def _cut(self, error: Exception | None) -> None:
        if self._is_cut:
            return
        self._is_cut = self._is_closing = True
        self.pause_reading()
        if self._buffer:
            self._buffer.clear()
            self._loop.remove_writer(self._sock)
        # Later, because the caller may be the protocol itself, in the middle of something.
        self._loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._sock.close()
