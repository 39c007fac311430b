"""An HTTP server that plays a script: what a healthy API server never does, done on purpose, for tests of clients.

::

    async with ScriptedServer() as server:
        server.on("GET", "/api/v1/pods", watch=True).answer(
            watch_stream(added(pod), Hold(), first_half(modified(pod)), Cut()),
            kube_status(429, "TooManyRequests", retry_after=1),
        )

Import it from here: it needs aiohttp, which the package `gpuruntime.testing` does without.
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
    """The server was asked for something that nobody had scripted; the message lists what."""


@frozen
class SeenRequest:
    """A request as it was received; `loop_time` is the time of the event loop when its head was there.

    Names of headers match whatever their case. Where a parameter or header was sent twice, its first value is given.
    """

    method: str
    path: str
    query: Mapping[str, str]
    # Not shown: a test that fails prints its requests, and they may carry tokens.
    headers: Mapping[str, str] = field(repr=False)
    body: bytes
    loop_time: float

    @property
    def watch(self) -> bool:
        return is_watch(self.query)

    def json(self) -> Any:
        """The decoded body. Raises ValueError where it is no JSON."""
        return json.loads(self.body)


class Route:
    """The script for the requests of one pattern: one answer for each request, the last one for ever."""

    def __init__(self) -> None:
        self._answers: list[Answer] = []

    def answer(self, *answers: Answer) -> None:
        """Play these for the requests from now on, in order; whatever was left of an earlier script is forgotten.

        Raises:
            ValueError: an answer cannot be played, see `check_answer`.
        """
        for answer in answers:
            check_answer(answer)
        self._answers = list(answers)

    def next_answer(self) -> Answer | None:
        """The answer for one more request, or None where there is no script."""
        return self._answers.pop(0) if len(self._answers) > 1 else next(iter(self._answers), None)


class ScriptedServer:
    """Serves on a free loopback port, without TLS, while its block runs.

    A request that no route answers gets a Status with code 501, and leaving the block raises
    `UnscriptedRequestError`; where the block has failed already, its error gets a note instead. Leaving the block ends
    every answer that is still being played and closes every connection.
    """

    def __init__(self) -> None:
        self._server = LoopbackServer(self._handle)
        self._routes: dict[RequestPattern, Route] = {}
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._seen: list[SeenRequest] = []
        self._playing = 0
        self._unscripted: Counter[str] = Counter()
        self._changes = ChangeSignal()

    @property
    def url(self) -> str:
        """Where it listens, without a path: `http://127.0.0.1:port`."""
        return self._server.url

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)
        if self._unscripted:
            asked = ", ".join(f"{what} ({count} times)" for what, count in self._unscripted.items())
            message = f"requests without a script: {asked}; say what to do with server.on(...).answer(...)"
            if error is None:
                raise UnscriptedRequestError(message)
            error.add_note(message)

    def on(self, method: str, path: str, *, watch: bool | None = None, query: Mapping[str, str] | None = None) -> Route:
        """The route of the requests that match (see `RequestPattern`): the same one whenever it is asked for.

        Where several routes match a request, the one with more conditions answers, then the one that was made first.
        """
        pattern = RequestPattern(method, path, watch, query or {})
        return self._routes.setdefault(pattern, Route())

    def release(self, gate: str = "gate") -> None:
        """Open a gate: every `Hold` of this name is over, those still to come included."""
        self._gates[gate].set()

    def requests(
        self,
        method: str | None = None,
        path: str | None = None,
        *,
        watch: bool | None = None,
        query: Mapping[str, str] | None = None,
    ) -> tuple[SeenRequest, ...]:
        """The matching requests so far, in the order in which they were complete."""
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
        """Wait until `count` matching requests have been received; gives the last of them."""
        await self._changes.until(lambda: len(self.requests(method, path, watch=watch, query=query)) >= count)
        return self.requests(method, path, watch=watch, query=query)[count - 1]

    async def idle(self) -> None:
        """Wait until no answer is being played: each one has ended, or its client has gone."""
        await self._changes.until(lambda: self._playing == 0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        received = asyncio.get_running_loop().time()
        body = await request.content.read()
        seen = SeenRequest(request.method, request.path, request.query, request.headers, body, received)
        answer = self._answer_for(seen)
        self._seen.append(seen)
        self._playing += 1
        self._changes.announce()
        try:
            return await self._play(request, answer)
        finally:
            self._playing -= 1
            self._changes.announce()

    def _answer_for(self, seen: SeenRequest) -> Answer:
        matching = [pattern for pattern in self._routes if pattern.matches(seen.method, seen.path, seen.query)]
        # max() gives the first of equals, and a dict remembers the order of its making.
        best = max(matching, key=lambda pattern: pattern.conditions, default=None)
        answer = None if best is None else self._routes[best].next_answer()
        if answer is None:
            asked = f"watch {seen.path}" if seen.watch else f"{seen.method} {seen.path}"
            self._unscripted[asked] += 1
            return kube_status(501, "NotScripted", f"no script for: {asked}")
        return answer

    async def _play(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
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
