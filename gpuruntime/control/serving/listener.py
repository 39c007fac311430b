"""The listener: accepts connections within limits, counted from before the TLS handshake."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from gpuruntime.control.serving.connection import Connection
from gpuruntime.control.serving.connection_counters import ConnectionCounters
from gpuruntime.control.serving.connection_table import ConnectionTable, TableFullError
from gpuruntime.control.serving.limits import HttpLimits, address_group, connection_counts, open_files_limit

__all__ = ["Listener", "listening_sockets"]

_LOG = logging.getLogger(__name__)
# Thousands of clients may connect at once; if the backlog is full, a client retries only after a second.
_BACKLOG: Final = 4096
# Evicted connections are closed in the next iteration of the loop: until then both hold a descriptor.
_ACCEPT_BATCH: Final = 16
_PAUSE_SECONDS: Final = 0.1
_LOG_INTERVAL_SECONDS: Final = 10.0
_NOTHING_TO_ACCEPT: Final = (BlockingIOError, InterruptedError, ConnectionAbortedError)


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on every address of a host name that this machine has.

    Raises:
        OSError: none of the addresses can be listened on.
    """
    found = await _resolved(host, port)
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                sockets.append(_listening(socket.socket(family, kind, protocol), address))
            except OSError as error:
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                missing = error
    except BaseException:
        for opened in sockets:
            opened.close()
        raise
    if missing is not None and not sockets:
        raise missing
    return sockets


async def _resolved(host: str, port: int) -> list[Any]:
    kind, flags = socket.SOCK_STREAM, socket.AI_PASSIVE
    with suppress(socket.gaierror):
        return socket.getaddrinfo(host or None, port, type=kind, flags=flags | socket.AI_NUMERICHOST)
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=kind, flags=flags)


def _listening(opened: socket.socket, address: Any) -> socket.socket:
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if opened.family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
        opened.listen(_BACKLOG)
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


class Listener:
    """Accepts connections on sockets during an `async with` block.

    Guarantees:
        The limits hold: an idle connection is evicted for a new one. If all serve requests, the new one gets `refusal`
        and is closed; with TLS it is closed without a response. A process without free file descriptors continues to
        accept when there are some.
    """

    def __init__(
        self,
        sockets: list[socket.socket],
        handler_of: Callable[[Connection], asyncio.BaseProtocol],
        limits: HttpLimits,
        counters: ConnectionCounters,
        *,
        tls: ssl.SSLContext | None,
        refusal: Callable[[], bytes],
    ) -> None:
        self._sockets = sockets
        self._handler_of = handler_of
        self._limits = limits
        self._counters = counters
        self._tls = tls
        self._refusal = refusal
        total, each = connection_counts(limits, open_files_limit())
        self._table: ConnectionTable[Connection] = ConnectionTable(total, each)
        self._pauses: dict[int, asyncio.TimerHandle] = {}
        self._next_log_at = 0.0
        self._opening: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> None:
        self._counters.watch(self._table, self._table.total)
        for listening in self._sockets:
            self._resume(listening)

    async def __aexit__(self, *_: object) -> None:
        for listening in self._sockets:
            pause = self._pauses.pop(listening.fileno(), None)
            if pause is not None:
                pause.cancel()
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        # A task that is cancelled before its first step would leave its socket open.
        await asyncio.sleep(0)
        for task in self._opening:
            task.cancel()
        if self._opening:
            await asyncio.wait(self._opening)

    def _resume(self, listening: socket.socket) -> None:
        self._pauses.pop(listening.fileno(), None)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Stop accepting for a moment, because an immediate retry would fail again."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._pauses[listening.fileno()] = loop.call_later(_PAUSE_SECONDS, self._resume, listening)
        self._counters.refused("descriptors")
        with suppress(TableFullError):
            for _ in range(_ACCEPT_BATCH):
                self._evict(self._table.longest_idle())
        if loop.time() >= self._next_log_at:
            self._next_log_at = loop.time() + _LOG_INTERVAL_SECONDS
            _LOG.warning("cannot accept connections, pausing", extra={"error": str(error)})

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPT_BATCH):
            try:
                accepted, peer = listening.accept()
            except _NOTHING_TO_ACCEPT:
                return
            except OSError as error:
                self._pause(listening, error)
                return
            accepted.setblocking(False)
            self._admit(accepted, address_group(str(peer[0])))

    def _admit(self, accepted: socket.socket, address: str) -> None:
        try:
            to_evict = self._table.to_evict(address)
        except TableFullError as full:
            self._counters.refused(full.reason)
            self._refuse(accepted)
            return
        if to_evict is not None:
            self._evict(to_evict)
        connection = Connection(self._table, self._counters, accepted.close)
        self._table.add(connection, address)
        task = asyncio.get_running_loop().create_task(self._open(accepted, connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket, connection: Connection) -> None:
        if accepted.fileno() < 0:
            return  # already evicted
        opening = asyncio.current_task()
        connection.close = lambda: _cancel(opening)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._handler_of(connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.handshake_seconds if self._tls else None,
            )
        except ConnectionAbortedError:
            # The loop's error for a TLS handshake that timed out.
            self._counters.timed_out("handshake")
            connection.lost()
        except OSError:
            # The client disconnected, or does not speak TLS.
            connection.lost()
        except BaseException:
            connection.lost()
            raise

    def _evict(self, connection: Connection) -> None:
        self._counters.evicted += 1
        self._table.remove(connection)
        connection.close()

    def _refuse(self, accepted: socket.socket) -> None:
        with accepted, suppress(OSError):
            if self._tls is None:
                # With unread data in the socket, the kernel would reset the connection and discard the response.
                with suppress(BlockingIOError):
                    accepted.recv(2**16)
                accepted.send(self._refusal())
                accepted.shutdown(socket.SHUT_WR)


def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
