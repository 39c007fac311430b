"""An HTTP server with scripted answers, for tests of how clients handle what a healthy API server never sends.

::

    async with ScriptedServer() as server:
        server.on("GET", "/api/v1/pods", watch=True).answer(
            watch_stream(added(pod), Hold(), first_half(modified(pod)), Cut()),
            kube_status(429, "TooManyRequests", retry_after=1),
        )
"""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from attrs import field, frozen

from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.faults.request_pattern import RequestPattern, is_watch
from gpuruntime.testing.loopback_http import LoopbackServer, cut_connection, reset_connection, stall
from gpuruntime.testing.scripted.answers import (
    Answer,
    Begin,
    Cut,
    Hold,
    Reset,
    Respond,
    Send,
    Stall,
    check_answer,
    kube_status,
)

__all__ = ["Route", "ScriptedServer", "SeenRequest", "UnscriptedRequestError"]


class UnscriptedRequestError(Exception):
    """The server received requests without a script; the message lists them."""


@frozen
class SeenRequest:
    """A received request; `loop_time` is the event loop's time when its head arrived.

    Header names are case-insensitive. Of a repeated parameter or header, the first value is used.
    """

    method: str
    path: str
    query: Mapping[str, str]
    # Not in the repr: a failing test prints its requests, and they may carry tokens.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes
    loop_time: float

    @property
    def watch(self) -> bool:
        return is_watch(self.query)

    def json(self) -> Any:
        """The decoded body. Raises ValueError if it is not JSON."""
        return json.loads(self.body)


class Route:
    """The script for the requests of one pattern: one answer per request; the last answer repeats."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []

    def answer(self, *answers: Answer) -> None:
        """Answer further requests with these, in order; this replaces what is left of an earlier script.

        Raises:
            ValueError: an impossible answer, see `check_answer`.
        """
        for answer in answers:
            check_answer(answer)
        self._answers = list(answers)

    def next_answer(self) -> Answer | None:
        """The answer for one more request, or None if there is no script."""
        return self._answers.pop(0) if len(self._answers) > 1 else next(iter(self._answers), None)


class ScriptedServer:
    """Serves plain HTTP on a free loopback port while its block runs.

    A request that no route matches gets a Status with code 501, and leaving the block raises `UnscriptedRequestError`;
    if the block has failed already, its error gets a note instead. Leaving the block aborts unfinished answers and
    closes every connection.
    """

    def __init__(self) -> None:
        self._server = LoopbackServer(self._handle)
        self._routes: dict[RequestPattern, Route] = {}
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._seen: list[SeenRequest] = []
        self._in_progress = 0
        self._unscripted: Counter[str] = Counter()
        self._changes = ChangeSignal()

    @property
    def url(self) -> str:
        """The base URL: `http://127.0.0.1:port`."""
        return self._server.url

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)
        if self._unscripted:
            requests = ", ".join(f"{request} ({count} times)" for request, count in self._unscripted.items())
            message = f"requests without a script: {requests}; add answers with server.on(...).answer(...)"
            if error is None:
                raise UnscriptedRequestError(message)
            error.add_note(message)

    def on(self, method: str, path: str, *, watch: bool | None = None, query: Mapping[str, str] | None = None) -> Route:
        """The route of matching requests (see `RequestPattern`); equal patterns give the same route.

        If several routes match a request, the one with the most conditions answers, among equals the oldest.
        """
        pattern = RequestPattern(method, path, watch, query or {})
        return self._routes.setdefault(pattern, Route())

    def release(self, gate: str = "gate") -> None:
        """Open a gate: every `Hold` of this name continues, now and in the future."""
        self._gates[gate].set()

    def requests(
        self,
        method: str | None = None,
        path: str | None = None,
        *,
        watch: bool | None = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[SeenRequest, ...]:
        """The matching requests so far, in the order in which they were received completely."""
        pattern = RequestPattern(method, path, watch, query or {})
        return tuple(seen for seen in self._seen if pattern.matches(seen.method, seen.path, seen.query))

    async def seen(
        self,
        count: int,
        method: str | None = None,
        path: str | None = None,
        *,
        watch: bool | None = None,
        query: Mapping[str, str] | None = None,
    ) -> SeenRequest:
        """Wait until `count` matching requests have been received; returns the last of them."""
        await self._changes.until(lambda: len(self.requests(method, path, watch=watch, query=query)) >= count)
        return self.requests(method, path, watch=watch, query=query)[count - 1]

    async def idle(self) -> None:
        """Wait until no answer is in progress: each one has ended, or its client has disconnected."""
        await self._changes.until(lambda: self._in_progress == 0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        received = asyncio.get_running_loop().time()
        body = await request.content.read()
        seen = SeenRequest(request.method, request.path, request.query, request.headers, body, received)
        answer = self._answer_for(seen)
        self._seen.append(seen)
        self._in_progress += 1
        self._changes.announce()
        try:
            return await self._execute(request, answer)
        finally:
            self._in_progress -= 1
            self._changes.announce()

    def _answer_for(self, seen: SeenRequest) -> Answer:
        matching = [pattern for pattern in self._routes if pattern.matches(seen.method, seen.path, seen.query)]
        # max() returns the first of equals, and a dict keeps insertion order.
        best = max(matching, key=lambda pattern: pattern.conditions, default=None)
        answer = None if best is None else self._routes[best].next_answer()
        if answer is None:
            unscripted = f"watch {seen.path}" if seen.watch else f"{seen.method} {seen.path}"
            self._unscripted[unscripted] += 1
            return kube_status(501, "NotScripted", f"no script for: {unscripted}")
        return answer

    async def _execute(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse()
        for step in answer:
            match step:
                case Respond(status, headers, body):
                    response = web.Response(status=status, headers=headers, body=body)
                case Begin(status, headers):
                    response = web.StreamResponse(status=status, headers=headers)
                    response.enable_chunked_encoding()
                    await response.prepare(request)
                case Send(data):
                    await response.write(data)
                case Hold(gate):
                    await self._gates[gate].wait()
                case Stall():
                    await stall()
                case Cut():
                    await cut_connection(request)
                case Reset():
                    await reset_connection(request)
        return response
