"""The transport: requests and streams to one API server, over one pool of connections."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import lru_cache
from io import BytesIO
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from gpuruntime.kube.auth.credentials import Authorization, Credentials
from gpuruntime.kube.errors import KubeError, UnauthorizedError, UnavailableError
from gpuruntime.kube.transport.failures import (
    FAILURES,
    error_from_failure,
    error_from_foreign_stream,
    error_from_response,
)
from gpuruntime.kube.transport.request import Request
from gpuruntime.kube.transport.response import Response
from gpuruntime.kube.transport.retries import Retrier, RetryPolicy
from gpuruntime.kube.transport.server_time import ServerTime
from gpuruntime.kube.transport.server_warnings import WarningLog
from gpuruntime.kube.transport.session import Sending, open_session

__all__ = ["Transport"]

T = TypeVar("T")

_JSON: Final = "application/json"
_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;=-._~"
# Needs no quoting, and the match is faster than quoting.
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9/._~-]+")
_BURST: Final = 64 * 1024
_GATHER_SECONDS: Final = 0.003
# From this size on aiohttp warns about bytes and wants a stream.
_LARGE_BODY: Final = 2**20


class Transport:
    """Sends requests with current credentials.

    Guarantees: every failure is a KubeError. No redirect is followed, and no proxy is used but the endpoint's. At most
    `max_in_flight` requests are in flight at a time; streams are neither counted nor delayed. A 401 refreshes the
    credentials and is retried once. `retries` is the policy for all other errors; a write that may have been executed
    is not retried, unless the server sent Retry-After.

    Use it as an async context manager, or call `close`. `sleep` waits between retries; `server_time` is the server's
    clock.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        user_agent: str,
        max_in_flight: int = 64,
        retries: RetryPolicy = RetryPolicy(),  # a frozen value
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        server_time: ServerTime | None = None,
    ) -> None:
        self.server_time = server_time or ServerTime()
        self._credentials = credentials
        self._user_agent = user_agent
        self._slots = asyncio.Semaphore(max_in_flight)
        self._retrier = Retrier(retries, sleep)
        self._warnings = WarningLog()
        # By whether their connections are guarded.
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._closed = False
        self._counts: Counter[tuple[str, str]] = Counter()
        self._in_flight = 0

    @property
    def server(self) -> str:
        """The address of the API server, from the current credentials."""
        return self._credentials.endpoint.server

    @property
    def counts(self) -> Mapping[tuple[str, str], int]:
        """The number of requests by (code, method); the code is "<error>" if there was no response."""
        return self._counts

    @property
    def in_flight(self) -> int:
        """The number of requests in flight, streams not counted."""
        return self._in_flight

    async def send(self, request: Request) -> Response:
        """Send a request and return the response, of status 2xx, within `request.timeout` seconds.

        Raises:
            KubeError: no response, or an error response; or what the guard of the request raised.
        """
        outcome = await self._retrier.run(lambda left: self._attempt(request, left), request.method, request.timeout)
        return _result(outcome)

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET and yield the chunks of its response as they arrive, until the stream ends cleanly.

        Nothing is retried but a 401. Leaving the context drops the connection.

        Raises:
            KubeError: there is no stream of JSON within `request.timeout` seconds; or, from the iterator, silence for
                `idle_timeout` seconds or a lost connection.
        """
        response = _result(await self._attempt_stream(request))
        try:
            yield _Chunks(response, str(request), idle_timeout)
        finally:
            _drop(response)

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._closed = True
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _attempt(self, request: Request, left: float) -> Response | KubeError:
        sending = Sending(request.guard)
        try:
            async with asyncio.timeout(left):
                async with self._slots:
                    self._in_flight += 1
                    try:
                        return await self._authorized(lambda used: self._exchange(request, used, sending))
                    finally:
                        self._in_flight -= 1
        except KubeError as error:
            return error
        except FAILURES as error:
            return self._failed(request, error, sending)

    async def _attempt_stream(self, request: Request) -> aiohttp.ClientResponse | KubeError:
        sending = Sending()
        try:
            async with asyncio.timeout(request.timeout):
                return await self._authorized(lambda used: self._open_stream(request, used, sending))
        except KubeError as error:
            return error
        except FAILURES as error:
            return self._failed(request, error, sending)

    async def _authorized(self, send: Callable[[Authorization], Awaitable[T | KubeError]]) -> T | KubeError:
        used = await self._credentials.authorize()
        outcome = await send(used)
        if isinstance(outcome, UnauthorizedError) and await self._credentials.refused(used):
            outcome = await send(await self._credentials.authorize())
        return outcome

    async def _exchange(self, request: Request, used: Authorization, sending: Sending) -> Response | KubeError:
        response = await self._respond(request, used, sending)
        # The connection is reused if the response was read to its end, and closed otherwise.
        async with response:
            body = await response.read()
        self._note(request, response)
        if 200 <= response.status < 300:
            return Response(response.status, response.headers, body, str(request))
        return error_from_response(response.status, body, response.headers, str(request))

    async def _open_stream(
        self, request: Request, used: Authorization, sending: Sending
    ) -> aiohttp.ClientResponse | KubeError:
        with ExitStack() as stack:
            response = await self._respond(request, used, sending)
            stack.callback(response.close)
            if response.status != 200:
                body = await response.read()
                self._note(request, response)
                return error_from_response(response.status, body, response.headers, str(request))
            self._note(request, response)
            if response.content_type != _JSON:
                page = await response.content.readany()
                return error_from_foreign_stream(response.content_type, page, str(request))
            stack.pop_all()
            return response

    async def _respond(self, request: Request, used: Authorization, sending: Sending) -> aiohttp.ClientResponse:
        if self._closed:
            raise UnavailableError(f"{request}: the transport is closed")
        if request.guard is not None:
            request.guard()
        is_guarded = request.guard is not None
        session = self._sessions.get(is_guarded)
        if session is None:
            session = self._sessions[is_guarded] = open_session(guarded=is_guarded)
        endpoint = self._credentials.endpoint
        headers = CIMultiDict(used.headers)
        headers["User-Agent"] = self._user_agent
        headers["Accept"] = request.accept
        headers["Accept-Encoding"] = "identity"
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        large = request.body is not None and len(request.body) >= _LARGE_BODY
        # After a 401 this is a second request; the connection of the first may serve another request by now.
        sending.tried, sending.started, sending.connection, sending.guarded = True, False, None, None
        return await session.request(
            request.method,
            _url(endpoint.server, request),
            headers=headers,
            data=BytesIO(request.body or b"") if large else request.body,
            allow_redirects=False,
            proxy=endpoint.proxy,
            ssl=used.ssl or True,
            server_hostname=endpoint.tls_server_name,
            middlewares=(sending.once,),
        )

    def _note(self, request: Request, response: aiohttp.ClientResponse) -> None:
        self._counts[str(response.status), request.method] += 1
        self._warnings.note(response.headers.getall("Warning", ()))
        if 200 <= response.status < 300:
            # An error page may be that of a proxy, with its own clock.
            self.server_time.note(response.headers.get("Date", ""))

    def _failed(self, request: Request, error: Exception, sending: Sending) -> KubeError:
        if sending.tried:
            self._counts["<error>", request.method] += 1
        if sending.refusal is not None:
            sending.refusal.outcome_unknown = sending.outcome_unknown
            return sending.refusal
        return error_from_failure(error, str(request), outcome_unknown=sending.outcome_unknown, seconds=request.timeout)


def _drop(response: aiohttp.ClientResponse) -> None:
    """Abort the connection of a response. A TLS connection that is only closed shuts down in the background, which is
    not awaited: a loop that ends soon would leave its socket open.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    response.close()


class _Chunks(AsyncIterator[bytes]):
    """The chunks of a stream. Not a generator, which would have to be finalized when the consumer stops halfway.

    A server flushes every event of a watch, and waking up for each costs more than reading it. So during a burst
    (`_BURST` bytes without a pause) chunks are gathered for `_GATHER_SECONDS` before they are read.
    """

    def __init__(self, response: aiohttp.ClientResponse, request: str, idle_timeout: float) -> None:
        self._response = response
        self._request = request
        self._idle_timeout = idle_timeout
        self._burst = 0

    async def __anext__(self) -> bytes:
        try:
            if self._burst >= _BURST:
                await asyncio.sleep(_GATHER_SECONDS)
            # Data that has arrived needs no timer, which would cost as much as reading it.
            chunk = self._response.content.read_nowait() or await self._wait()
        except TimeoutError as error:
            raise UnavailableError(f"{self._request}: no data for {self._idle_timeout:g} s") from error
        except FAILURES as error:
            raise error_from_failure(error, self._request, outcome_unknown=False) from error
        if not chunk:
            raise StopAsyncIteration
        self._burst += len(chunk)
        return chunk

    async def _wait(self) -> bytes:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.timeout(self._idle_timeout):
            chunk = await self._response.content.readany()
        if loop.time() - began > _GATHER_SECONDS:
            self._burst = 0
        return chunk


def _url(server: str, request: Request) -> URL:
    params = request.params
    query = _query(tuple(params.items() if isinstance(params, Mapping) else params))
    path = request.path if _PLAIN_PATH.fullmatch(request.path) else quote(request.path, safe=_PATH_CHARACTERS)
    return URL(f"{server}{path}?{query}" if query else f"{server}{path}", encoded=True)


# Most requests are writes, and those of one writer have the same query.
@lru_cache(maxsize=256)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    return urlencode(params, quote_via=quote)


def _result(outcome: T | KubeError) -> T:
    if not isinstance(outcome, KubeError):
        return outcome
    try:
        raise outcome
    finally:
        # A frame in the error's own traceback would refer to the error: a cycle for the garbage collector.
        del outcome
