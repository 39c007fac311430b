"""A proxy in front of a real API server that loses, delays and breaks what a test tells it to.

    async with FaultProxy(cluster.server, cluster.authority) as proxy:
        with proxy.inject(LoseResponses(times=1), method="POST", path=".*/pods"):
            ...  # a client of proxy.url creates a pod and is not told

Import it from here: it needs aiohttp, which the package `gpuruntime.testing` does without.
"""

import asyncio
import ssl
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import (
    ClientConnectionError,
    ClientError,
    ClientHandlerType,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
    web,
)
from attrs import field, frozen
from yarl import URL

from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.faults.body_copy import Ending, copy_body
from gpuruntime.testing.faults.definitions import (
    DelayRequests,
    DieAfterWrites,
    DropRequests,
    FailRequests,
    Fault,
    LoseResponses,
    StallRequests,
)
from gpuruntime.testing.faults.exchanges import Call, ExchangeLog, name_in
from gpuruntime.testing.faults.registry import ActiveFault, FaultRegistry, Subject
from gpuruntime.testing.faults.request_pattern import RequestPattern, is_watch, resource_of
from gpuruntime.testing.faults.tracked_sockets import TrackedSockets
from gpuruntime.testing.loopback_http import LoopbackServer, cut_connection
from gpuruntime.testing.scripted.watch_events import status_object

__all__ = ["BearerToken", "ClientCertificate", "FaultProxy", "Identity"]

# Headers that are about one connection, not about the message (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NOT_FORWARDED = _HOP_BY_HOP | {"host", "content-length", "expect"}
_INVENTED_BY_AIOHTTP = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


@frozen
class BearerToken:
    """Whoever has this token."""

    token: str = field(repr=False)


@frozen
class ClientCertificate:
    """Whoever has this certificate and its key, both PEM files."""

    certificate: Path
    key: Path


Identity = BearerToken | ClientCertificate


class _DroppedError(Exception):
    """This request gets no answer, or no more of it."""


class FaultProxy:
    """Serves plain HTTP on a free loopback port while its block runs, and passes everything on to one server with TLS.

    Requests and responses are passed on as they are, except that connections are not upgraded (no exec, attach,
    port-forward). Where the server breaks a connection or cannot be reached, the client's connection is closed. When a
    client goes away, its request to the server is given up.

    A request without an Authorization header is sent with `identity`, so that a client that knows no certificates can
    talk to a cluster that expects one. Everybody on this machine who finds the port can then do so: use it for clusters
    of tests. With an Authorization header, `identity` plays no part.
    """

    def __init__(self, server: str, authority: Path, *, identity: Identity | None = None) -> None:
        self._target = server.rstrip("/")
        self._authority = authority
        self._identity = identity
        self._board = FaultRegistry()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._log = ExchangeLog(self._board.changes)
        self._server = LoopbackServer(self._handle)
        self._cleanup = AsyncExitStack()

    @property
    def url(self) -> str:
        """Where it listens, without a path: `http://127.0.0.1:port`."""
        return self._server.url

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """How many requests came, whatever became of them, by method and resource: `("PATCH", "pods/status")`.

        The method of a watch is given as `WATCH`. A path that names no resource stands for itself.
        """
        return self._counts.copy()

    @property
    def log(self) -> ExchangeLog:
        """Every request so far, and what the server said."""
        return self._log

    @property
    def changes(self) -> ChangeSignal:
        """Tells of every request, answer and event, and of faults that come, are done, or go."""
        return self._board.changes

    def inject(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str | None = None,
        watch: bool | None = None,
        resource: str | None = None,
        call: Call | None = None,
    ) -> ActiveFault:
        """Switch a fault on for the requests that match (see `RequestPattern`), until it is lifted.

        With `call` it is for that very request, counted from the beginning of the proxy. Several faults may meet one
        request; they are done in the order in which they were injected, up to one that answers or drops it.
        """
        return self._board.inject(fault, RequestPattern(method, path, watch, resource=resource), call)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            # Kubernetes prefers a certificate to a token, so a client that brings a token must not get our certificate.
            self._tls = ssl.create_default_context(cafile=str(self._authority))
            self._tls_as_identity = ssl.create_default_context(cafile=str(self._authority))
            if isinstance(self._identity, ClientCertificate):
                self._tls_as_identity.load_cert_chain(self._identity.certificate, self._identity.key)
            sockets = TrackedSockets()
            stack.push_async_callback(sockets.close)
            session = ClientSession(
                connector=TCPConnector(limit=0, socket_factory=sockets.create),
                cookie_jar=DummyCookieJar(),
                timeout=ClientTimeout(total=None),
                auto_decompress=False,
                skip_auto_headers=_INVENTED_BY_AIOHTTP,
                middlewares=(_send_once,),
            )
            self._session = await stack.enter_async_context(session)
            await stack.enter_async_context(self._server)
            self._cleanup = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cleanup.__aexit__(kind, error, trace)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        method, resource = "WATCH" if is_watch(request.query) else request.method, resource_of(request.path)
        self._counts[method, resource] += 1
        call = Call(method, resource, self._counts[method, resource])
        try:
            return await self._pass_on(request, Subject(request.method, request.path, request.query, call), call)
        except (_DroppedError, ClientError):
            await cut_connection(request)

    async def _pass_on(self, request: web.BaseRequest, subject: Subject, call: Call) -> web.StreamResponse:
        body = await request.content.read()
        number = self._log.begin(call, name_in(request.path, call.resource, body), write=subject.write)
        failure = await self._meet(subject)
        if failure is not None:
            return failure
        answer, last_write_of = await self._send(request, subject, body, number)
        async with answer:
            try:
                await self._lose(answer, subject, last_write_of)
                response = web.StreamResponse(status=answer.status, reason=answer.reason)
                response.headers.extend(
                    (name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP
                )
                await response.prepare(request)
                if await copy_body(answer, response, self._board, subject) is Ending.CUT:
                    raise _DroppedError
                await response.write_eof()
                return response
            finally:
                for active in last_write_of:
                    active.note()

    async def _meet(self, subject: Subject) -> web.Response | None:
        if self._board.dead:
            raise _DroppedError
        done: set[ActiveFault] = set()
        # Looked up again each time, because faults come and go while a request is delayed.
        while active := next((fault for fault in self._board.meeting(subject) if fault not in done), None):
            done.add(active)
            match active.fault:
                case DelayRequests(seconds):
                    active.note()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await active.until_lifted()
                case StallRequests():
                    active.note()
                    await active.until_lifted()
                case DropRequests():
                    active.note()
                    raise _DroppedError
                case FailRequests() as fault:
                    active.note()
                    return _failure(fault)
        return None

    async def _send(
        self, request: web.BaseRequest, subject: Subject, body: bytes, number: int
    ) -> tuple[ClientResponse, list[ActiveFault]]:
        """The server's answer, and the faults for which this was the last write."""
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_FORWARDED]
        tls = self._tls
        if "Authorization" not in request.headers:
            tls = self._tls_as_identity
            if isinstance(self._identity, BearerToken):
                headers.append(("Authorization", f"Bearer {self._identity.token}"))
        async with AsyncExitStack() as turns:
            writes_left = self._board.writes_left(subject)
            for left in writes_left:
                await turns.enter_async_context(left.turn)
            if self._board.dead:
                raise _DroppedError
            for left in writes_left:
                if left.refused():
                    left.active.note()
                    raise _DroppedError
            answer = await self._session.request(
                request.method,
                URL(self._target + request.raw_path, encoded=True),
                headers=headers,
                data=body or None,
                ssl=tls,
                allow_redirects=False,
            )
            self._log.answered(number, answer.status)
            return answer, [left.active for left in writes_left if answer.ok and left.accepted()]

    async def _lose(self, answer: ClientResponse, subject: Subject, last_write_of: list[ActiveFault]) -> None:
        if any(isinstance(active.fault, DieAfterWrites) and active.fault.lose_answer for active in last_write_of):
            await answer.read()
            raise _DroppedError
        for active in self._board.meeting(subject):
            if isinstance(active.fault, LoseResponses):
                active.note()
                if not subject.watch:
                    await answer.read()
                raise _DroppedError


async def _send_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Keep aiohttp from sending a GET, PUT or DELETE again on its own when a connection breaks (its issue 10790)."""
    try:
        return await handler(request)
    except ClientConnectionError as error:
        raise _DroppedError from error


def _failure(fault: FailRequests) -> web.Response:
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    if fault.body is not None:
        return web.Response(status=fault.status, headers=headers, text=fault.body, content_type="text/html")
    details = {} if fault.retry_after is None else {"retryAfterSeconds": fault.retry_after}
    status = status_object(fault.status, "Injected", "injected by a fault proxy", **details)
    return web.json_response(status, status=fault.status, headers=headers)
