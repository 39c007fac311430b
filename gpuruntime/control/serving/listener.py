"""Accepting connections: each is counted from its first moment, the TLS handshake included."""

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
# Thousands may come at once; a client that finds the queue full tries again a second later.
_BACKLOG: Final = 4096
# Evicted connections are closed in the next turn of the loop: until then both hold a descriptor.
_ACCEPTED_AT_ONCE: Final = 16
_PAUSE_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 10.0
_GONE_ALREADY: Final = (BlockingIOError, InterruptedError, ConnectionAbortedError)


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on every address that a host name stands for, as far as this machine has them.

    Raises:
        OSError: there is none that can be listened on.
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
    """Accepts connections on sockets for the length of an `async with` block.

    Guarantees:
        No more are open than the limits allow: one that waits gives way to a new one, and where all serve requests the
        new one gets `refusal` (without TLS; with TLS it is closed). A process that can open no more files goes on
        accepting when it can.
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
        self._quiet_until = 0.0
        self._welcoming: set[asyncio.Task[None]] = set()

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
        for task in self._welcoming:
            task.cancel()
        if self._welcoming:
            await asyncio.wait(self._welcoming)

    def _resume(self, listening: socket.socket) -> None:
        self._pauses.pop(listening.fileno(), None)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        """Stop accepting for a moment: the cause does not go away by trying again at once."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        self._pauses[listening.fileno()] = loop.call_later(_PAUSE_SECONDS, self._resume, listening)
        self._counters.refused("descriptors")
        with suppress(TableFullError):
            for _ in range(_ACCEPTED_AT_ONCE):
                self._evict(self._table.oldest_waiting())
        if loop.time() >= self._quiet_until:
            self._quiet_until = loop.time() + _QUIET_SECONDS
            _LOG.warning("connections cannot be accepted for a moment", extra={"error": str(error)})

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, peer = listening.accept()
            except _GONE_ALREADY:
                return
            except OSError as error:
                self._pause(listening, error)
                return
            accepted.setblocking(False)
            self._admit(accepted, address_group(str(peer[0])))

    def _admit(self, accepted: socket.socket, address: str) -> None:
        try:
            giving_way = self._table.giving_way(address)
        except TableFullError as full:
            self._counters.refused(full.reason)
            self._refuse(accepted)
            return
        if giving_way is not None:
            self._evict(giving_way)
        connection = Connection(self._table, self._counters, accepted.close)
        self._table.add(connection, address)
        task = asyncio.get_running_loop().create_task(self._welcome(accepted, connection))
        self._welcoming.add(task)
        task.add_done_callback(self._welcoming.discard)

    async def _welcome(self, accepted: socket.socket, connection: Connection) -> None:
        if accepted.fileno() < 0:
            return  # it has given way already
        welcoming = asyncio.current_task()
        connection.close = lambda: _cancel(welcoming)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._handler_of(connection),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.handshake_seconds if self._tls else None,
            )
        except ConnectionAbortedError:
            # How the loop words a handshake that takes too long.
            self._counters.timed_out("handshake")
            connection.lost()
        except OSError:
            # The caller went away, or speaks no TLS.
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
                # What has come already is taken off, or the kernel would take the answer back with a reset.
                with suppress(BlockingIOError):
                    accepted.recv(2**16)
                accepted.send(self._refusal())
                accepted.shutdown(socket.SHUT_WR)


def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
