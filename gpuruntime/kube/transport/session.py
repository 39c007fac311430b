"""The aiohttp session of a transport, with everything implicit switched off.

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
# Well below the usual timeout of a request, so that a read can retry on another connection.
_CONNECT_SECONDS: Final = 10.0
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


class ConnectionLostError(Exception):
    """The connection failed; the cause says how. Internal to the transport."""


@define(eq=False)
class Sending:
    """The progress of one request: whether it was tried, whether any byte of it may have been sent, and on which
    connection.

    With a `guard`, the request is sent on a connection of a guarded session, which calls the guard before every send.
    """

    guard: Guard | None = None
    tried: bool = False
    started: bool = False
    connection: asyncio.Transport | None = None
    guarded: GuardedSocket | None = None

    @property
    def refusal(self) -> NotSentError | None:
        """What the guard raised for this request."""
        return None if self.guarded is None else self.guarded.refusal

    @property
    def outcome_unknown(self) -> bool:
        """Whether the server may have got all of it. A request that the guard stopped is incomplete."""
        return self.started and (self.refusal is None or (self.guarded is not None and self.guarded.is_late))

    def begin(self, connection: asyncio.Transport | None) -> None:
        """Note that the request is about to be sent on this connection, and give the connection the guard."""
        self.started, self.connection = True, connection
        if self.guard is not None and connection is not None:
            self.guarded = connection.get_extra_info(GUARD)
            if self.guarded is None:
                raise RuntimeError("a request with a guard was sent on a connection without guards")
            self.guarded.begin(self.guard)

    async def once(
        self, request: aiohttp.ClientRequest, handler: Callable[[aiohttp.ClientRequest], Any]
    ) -> aiohttp.ClientResponse:
        """An aiohttp middleware: sends the request once and notes its progress here."""
        # aiohttp retries a PUT, a DELETE or a GET when the connection breaks, even after the server got all of it. It
        # does so for errors of these types only.
        if isinstance(request, _NotedRequest):
            request.sending = self
        try:
            response: aiohttp.ClientResponse = await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise ConnectionLostError from error
        except asyncio.CancelledError:
            # aiohttp closes the connection, and TLS then shuts down in the background, which is not awaited: a loop
            # that ends soon would leave the socket open.
            if self.connection is not None:
                self.connection.abort()
            raise
        return response


class _NotedRequest(aiohttp.ClientRequest):
    """Notes when it is about to be sent. Tracing could do it, but has a hook for every step of every request."""

    sending: Sending | None = None

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        # Before the first byte: a request that did not start was certainly not received.
        if self.sending is not None:
            self.sending.begin(conn.transport)
        return await super().send(conn)


def open_session(*, guarded: bool = False) -> aiohttp.ClientSession:
    """Open a session in the running loop. Pass the `once` of a `Sending` as middleware of each request. Requests with
    a guard need a guarded session.
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
    """A socket with TCP keepalive: a peer that vanished is noticed within 90 seconds."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            # Not every platform has all three options.
            option = getattr(socket, name, None)
            if option is not None:
                made.setsockopt(socket.IPPROTO_TCP, option, value)
    except OSError:
        made.close()
        raise
    return made
