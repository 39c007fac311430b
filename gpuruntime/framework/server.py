"""The HTTP server of the framework contract, on a unix socket.

::

    POST /invoke        runs the function; 200 with an envelope, whatever the function did
    GET  /healthz       200 {"ok": true} when setup is done, else 503 with the reason
    POST /cancel/<id>   cancels a run; 404 if there is none

An error of the request itself has its HTTP status, and an envelope with `statusCode` and `error`. With the header
`Serverless-Not-Started: true` the function was not called: the invocation may be sent elsewhere.
"""

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import unquote

from gpuruntime.framework.envelope import EnvelopeError, error_answer, invocation_of
from gpuruntime.framework.http_messages import HttpError, HttpLimits, Message, read_requests
from gpuruntime.framework.runs import RefusedRunError, Run, Runs

__all__ = ["NOT_STARTED", "FrameworkServer", "Routes"]

NOT_STARTED: Final = "Serverless-Not-Started"
"""The header of answers to an invocation that was not started."""

_CANCEL: Final = "/cancel/"
# A client that sends its next requests early is not read further while one runs, but its end still has to be noticed.
_MOST_AHEAD: Final = 1024 * 1024
# A client that was refused may still send: closed at once, it would see a reset and not the answer.
_LINGER_SECONDS: Final = 1.0
_FLUSH_SECONDS: Final = 5.0
_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True)
class Routes:
    """The paths that are served, what answers, and the limits of a request."""

    runs: Runs
    problem: Callable[[], str]
    """Why the function cannot run now, or an empty text."""
    invoke_path: str = "/invoke"
    health_path: str = "/healthz"
    limits: HttpLimits = field(default_factory=HttpLimits)

    def methods(self, path: str) -> str:
        """The method that a path allows, or an empty text if there is no such path."""
        if path == self.health_path:
            return "GET"
        return "POST" if path == self.invoke_path or path.startswith(_CANCEL) else ""


class FrameworkServer:
    """Serves the routes on a socket that listens, until it is closed."""

    def __init__(self, routes: Routes, socket: socket.socket) -> None:
        self._routes = routes
        self._socket = socket
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: _Connection(self._routes, self._connections), sock=self._socket
        )

    async def close(self) -> None:
        """Close the listener and all connections, after what was written to them is sent."""
        if self._server is not None:
            self._server.close()
        closed = [connection.close() for connection in self._connections]
        if closed:
            await asyncio.wait(closed, timeout=_FLUSH_SECONDS)


class _Connection(asyncio.Protocol):
    """One connection. Requests are answered one after another; a run whose connection is lost is cancelled."""

    def __init__(self, routes: Routes, connections: "set[_Connection]") -> None:
        self._routes = routes
        self._connections = connections
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = read_requests(routes.limits)
        self._transport: asyncio.Transport | None = None
        self._run: Run | None = None
        self._is_answering = False
        self._keep_alive = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def close(self) -> "asyncio.Future[None]":
        """Close it after what was written is sent; the result is there when it is closed."""
        if self._transport is not None:
            self._transport.close()
        return self._closed

    def data_received(self, data: bytes) -> None:
        if not self._keep_alive and not self._is_answering:
            # The last answer is on its way.
            return
        self._reader.feed(data)
        if not self._is_answering:
            self._next()
        elif self._transport is not None and self._reader.buffered > _MOST_AHEAD:
            self._transport.abort()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        self._closed.set_result(None)
        if self._run is not None:
            self._routes.runs.cancel(self._run)

    def _next(self) -> None:
        while self._transport is not None and self._keep_alive and not self._is_answering:
            try:
                request = self._reader.next()
            except HttpError as error:
                self._keep_alive = False
                self._respond(error.status, error_answer(error.status, str(error)))
                return
            if request is None:
                if self._reader.take_continue():
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            self._keep_alive = request.keep_alive
            self._is_answering = True
            self._answer(request)

    def _answer(self, request: Message) -> None:
        path = request.target.partition("?")[0]
        method = self._routes.methods(path)
        if not method:
            self._refuse(404, f"there is no {path}: expected {self._routes.invoke_path} or {self._routes.health_path}")
        elif request.method != method:
            self._refuse(405, f"{path}: expected {method}, got {request.method}", f"Allow: {method}\r\n")
        elif path == self._routes.health_path:
            problem = self._routes.problem()
            health = {"ok": not problem, "running": len(self._routes.runs)} | ({"reason": problem} if problem else {})
            self._respond(503 if problem else 200, json.dumps(health).encode())
        elif path == self._routes.invoke_path:
            self._invoke(request)
        else:
            self._cancel(unquote(path.removeprefix(_CANCEL)))

    def _invoke(self, request: Message) -> None:
        problem = self._routes.problem()
        if problem:
            self._refuse(503, problem, f"{NOT_STARTED}: true\r\n")
            return
        try:
            self._run = self._routes.runs.start(invocation_of(request.body), self._finished)
        except EnvelopeError as error:
            self._refuse(400, str(error))
        except RefusedRunError as error:
            self._refuse(error.status, str(error), f"{NOT_STARTED}: true\r\n")

    def _cancel(self, id_: str) -> None:
        run = self._routes.runs.find(id_)
        if run is None:
            self._refuse(404, f"there is no running invocation {id_}")
        else:
            self._routes.runs.cancel(run)
            self._respond(200, b'{"cancelled":true}')

    def _finished(self, answer: bytes) -> None:
        self._run = None
        self._respond(200, answer)
        self._next()

    def _refuse(self, status: int, error: str, headers: str = "") -> None:
        self._respond(status, error_answer(status, error), headers)

    def _respond(self, status: int, body: bytes, headers: str = "") -> None:
        self._is_answering = False
        if self._transport is None:
            return
        closing = "" if self._keep_alive else "Connection: close\r\n"
        head = (
            f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{closing}{headers}\r\n"
        )
        self._transport.write(head.encode("latin-1", "replace") + body)
        if not self._keep_alive:
            self._transport.write_eof()
            asyncio.get_running_loop().call_later(_LINGER_SECONDS, self._transport.abort)
