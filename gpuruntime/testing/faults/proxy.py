"""A proxy in front of a real API server that drops, delays and breaks requests and responses as a test asks for it."""

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
from gpuruntime.testing.faults.registry import ActiveFault, FaultRegistry, ProxiedRequest
from gpuruntime.testing.faults.request_pattern import RequestPattern, is_watch, resource_of
from gpuruntime.testing.faults.tracked_sockets import TrackedSockets
from gpuruntime.testing.loopback_http import LoopbackServer, cut_connection
from gpuruntime.testing.scripted.watch_events import status_object

__all__ = ["BearerToken", "ClientCertificate", "FaultProxy", "Identity"]

# Headers of one connection that a proxy does not forward (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_NOT_FORWARDED = _HOP_BY_HOP | {"host", "content-length", "expect"}
_ADDED_BY_AIOHTTP = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


@frozen
class BearerToken:
    """Authentication by bearer token."""

    token: str = field(repr=False)


@frozen
class ClientCertificate:
    """Authentication by client certificate; certificate and key are PEM files."""

    certificate: Path
    key: Path


Identity = BearerToken | ClientCertificate


class _DroppedError(Exception):
    """The client's connection is to be closed without (the rest of) a response."""


class FaultProxy:
    """Serves plain HTTP on a free loopback port while its block runs, and forwards everything to one server over TLS.

    Requests and responses are forwarded unchanged, but connections are not upgraded (no exec, attach, port-forward). If
    the server breaks the connection or cannot be reached, the client's connection is closed. If the client disconnects,
    its request to the server is cancelled.

    A request without an Authorization header is sent with `identity`, so that a client without certificates can use a
    cluster that requires one. Every local user who finds the port can do the same: use it for test clusters only. A
    request with an Authorization header is sent with that alone.
    """

    def __init__(self, server: str, authority: Path, *, identity: Identity | None = None) -> None:
        self._target = server.rstrip("/")
        self._authority = authority
        self._identity = identity
        self._faults = FaultRegistry()
        self._counts: Counter[tuple[str, str]] = Counter()
        self._log = ExchangeLog(self._faults.changes)
        self._server = LoopbackServer(self._handle)
        self._cleanup = AsyncExitStack()

    @property
    def url(self) -> str:
        """The base URL: `http://127.0.0.1:port`."""
        return self._server.url

    @property
    def counts(self) -> Counter[tuple[str, str]]:
        """The number of requests, successful or not, by method and resource such as `("PATCH", "pods/status")`.

        The method of a watch is `WATCH`. For a path without a resource, the path is used.
        """
        return self._counts.copy()

    @property
    def log(self) -> ExchangeLog:
        """Every request so far, with the status of the server's response."""
        return self._log

    @property
    def changes(self) -> ChangeSignal:
        """Announces every request, response and event, and every injection, effect and lift of a fault."""
        return self._faults.changes

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
        """Activate a fault for matching requests (see `RequestPattern`) until it is lifted.

        With `call`, only for that one request, counted since the proxy started. Several faults may apply to a request:
        they take effect in the order of injection, up to one that answers or drops it.
        """
        return self._faults.inject(fault, RequestPattern(method, path, watch, resource=resource), call)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            # Kubernetes prefers a certificate to a token, so a request with a token must not carry our certificate.
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
                skip_auto_headers=_ADDED_BY_AIOHTTP,
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
            return await self._forward(request, ProxiedRequest(request.method, request.path, request.query, call), call)
        except (_DroppedError, ClientError):
            await cut_connection(request)

    async def _forward(self, request: web.BaseRequest, proxied: ProxiedRequest, call: Call) -> web.StreamResponse:
        body = await request.content.read()
        number = self._log.begin(call, name_in(request.path, call.resource, body), write=proxied.write)
        failure = await self._apply_request_faults(proxied)
        if failure is not None:
            return failure
        answer, last_write_of = await self._send(request, proxied, body, number)
        async with answer:
            try:
                await self._apply_response_faults(answer, proxied, last_write_of)
                response = web.StreamResponse(status=answer.status, reason=answer.reason)
                response.headers.extend(
                    (name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP
                )
                await response.prepare(request)
                if await copy_body(answer, response, self._faults, proxied) is Ending.CUT:
                    raise _DroppedError
                await response.write_eof()
                return response
            finally:
                for active in last_write_of:
                    active.record()

    async def _apply_request_faults(self, proxied: ProxiedRequest) -> web.Response | None:
        if self._faults.dead:
            raise _DroppedError
        done: set[ActiveFault] = set()
        # Looked up again each time, because faults are injected and lifted while a request is delayed.
        while active := next((fault for fault in self._faults.matching(proxied) if fault not in done), None):
            done.add(active)
            match active.fault:
                case DelayRequests(seconds):
                    active.record()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await active.until_lifted()
                case StallRequests():
                    active.record()
                    await active.until_lifted()
                case DropRequests():
                    active.record()
                    raise _DroppedError
                case FailRequests() as fault:
                    active.record()
                    return _failure(fault)
        return None

    async def _send(
        self, request: web.BaseRequest, proxied: ProxiedRequest, body: bytes, number: int
    ) -> tuple[ClientResponse, list[ActiveFault]]:
        """Send the request; returns the response, and the faults for which this was the last write."""
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _NOT_FORWARDED]
        tls = self._tls
        if "Authorization" not in request.headers:
            tls = self._tls_as_identity
            if isinstance(self._identity, BearerToken):
                headers.append(("Authorization", f"Bearer {self._identity.token}"))
        async with AsyncExitStack() as locks:
            budgets = self._faults.budgets_of(proxied)
            for budget in budgets:
                await locks.enter_async_context(budget.lock)
            if self._faults.dead:
                raise _DroppedError
            for budget in budgets:
                if budget.refused():
                    budget.active.record()
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
            return answer, [budget.active for budget in budgets if answer.ok and budget.accepted()]

    async def _apply_response_faults(
        self, answer: ClientResponse, proxied: ProxiedRequest, last_write_of: list[ActiveFault]
    ) -> None:
        if any(isinstance(active.fault, DieAfterWrites) and active.fault.lose_response for active in last_write_of):
            await answer.read()
            raise _DroppedError
        for active in self._faults.matching(proxied):
            if isinstance(active.fault, LoseResponses):
                active.record()
                if not proxied.watch:
                    await answer.read()
                raise _DroppedError


async def _send_once(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Keep aiohttp from retrying a GET, PUT or DELETE on its own when a connection breaks (aiohttp issue 10790)."""
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
