"""A session of the HTTP library that does what it is told and nothing on its own.

No environment, no netrc, no cookies, no compression, no limit of connections, and no request is ever sent twice.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import aiohttp
from aiohttp.connector import Connection
from attrs import define

from gpuruntime.kube.errors import NotSentError
from gpuruntime.kube.transport.guarded_connector import GuardedConnector
from gpuruntime.kube.transport.guarded_socket import GUARD, Guard, GuardedSocket

__all__ = ["ConnectionLostError", "Sending", "open_session"]

_READ_BUFFER: Final = 2**18
# Well below the time that a request usually has, so that a read can try another connection.
_CONNECT_SECONDS: Final = 10.0
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


class ConnectionLostError(Exception):
    """The connection failed; the cause says how. It never leaves the transport."""


@define(eq=False)
class Sending:
    """How far a request got: whether it was tried at all, whether any of it may have left this machine, and by which
    connection.

    With a `guard`, the request goes out on a connection of a guarded session, and every byte of it asks the guard.
    """

    guard: Guard | None = None
    tried: bool = False
    started: bool = False
    connection: asyncio.Transport | None = None
    guarded: GuardedSocket | None = None

    @property
    def refusal(self) -> NotSentError | None:
        """What the guard raised when it was asked about this request."""
        return None if self.guarded is None else self.guarded.refusal

    @property
    def outcome_unknown(self) -> bool:
        """Whether the server may have got all of it: a request that the guard cut off is incomplete."""
        return self.started and (self.refusal is None or (self.guarded is not None and self.guarded.is_late))

    def begin(self, connection: asyncio.Transport | None) -> None:
        """Note that the request is about to be sent on this connection, and have the connection ask the guard."""
        self.started, self.connection = True, connection
        if self.guard is not None and connection is not None:
            self.guarded = connection.get_extra_info(GUARD)
            if self.guarded is None:
                raise RuntimeError("a request with a guard was sent on a connection that asks none")
            self.guarded.begin(self.guard)

    async def once(
        self, request: aiohttp.ClientRequest, handler: Callable[[aiohttp.ClientRequest], Any]
    ) -> aiohttp.ClientResponse:
        """A middleware: sends the request, notes here how far it got, and sends it no second time."""
        # aiohttp repeats a PUT or a DELETE (a GET, too) by itself when the connection breaks, even after the server got
        # all of it. It does so for errors of these types only.
        if isinstance(request, _NotedRequest):
            request.sending = self
        try:
            response: aiohttp.ClientResponse = await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise ConnectionLostError from error
        except asyncio.CancelledError:
            # aiohttp closes the connection, and TLS then says goodbye in the background. Nobody waits for that: a loop
            # that ends soon would leave the socket open.
            if self.connection is not None:
                self.connection.abort()
            raise
        return response


class _NotedRequest(aiohttp.ClientRequest):
    """Tells when it is about to be sent. Tracing could tell as well, but has a hook for every step of every request."""

    sending: Sending | None = None

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        # Before the first byte is handed over: what did not start was certainly not received.
        if self.sending is not None:
            self.sending.begin(conn.transport)
        return await super().send(conn)


def open_session(*, guarded: bool = False) -> aiohttp.ClientSession:
    """A session for the running loop. A request with the `once` of a `Sending` as middleware tells there how far it
    got. Only a guarded session sends requests that have a guard.
    """
    connector = GuardedConnector if guarded else aiohttp.TCPConnector
    return aiohttp.ClientSession(
        connector=connector(limit=0, socket_factory=_kept_alive),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        trust_env=False,
        auto_decompress=False,
        read_bufsize=_READ_BUFFER,
        request_class=_NotedRequest,
    )


def _kept_alive(address: tuple[Any, ...]) -> socket.socket:
    """A socket on which a peer that vanished is noticed within 90 seconds."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            # Not every platform has all three.
            option = getattr(socket, name, None)
            if option is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
    except OSError:
        made.close()
        raise
    return made
