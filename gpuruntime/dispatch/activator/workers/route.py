"""`GET /v1/worker`: the connection of a worker.

==================================  ===================================================================================
no token, or not a valid one        401
a valid token of another pod        403
no key of leases yet, or stopping   503 with Retry-After: another activator may serve
no Hello in time, or another frame  closed with 1002
a frame that is none of ours        closed with 1002; one that is too large with 1009
silence                             closed; its leases are extended no more
a worker that does not read         the same
==================================  ===================================================================================
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

from aiohttp import ClientError, WSCloseCode, WSMsgType, web

from gpuruntime.control.serving import ERROR_RESPONSE
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.dispatch.activator.workers.identity import WorkerIdentity
from gpuruntime.dispatch.activator.workers.outgoing import send_all
from gpuruntime.dispatch.activator.workers.worker import Worker
from gpuruntime.dispatch.protocol import (
    FRAME_LIMIT,
    PROTOCOL_VERSION,
    Hello,
    ProtocolError,
    WorkerFrame,
    decode_from_worker,
)
from gpuruntime.endpoints.auth.access_control import bearer_token, unauthorized
from gpuruntime.endpoints.server.errors import CODES, ApiError
from gpuruntime.endpoints.server.response_format import add_request_id, bad_request_response, formatted

__all__ = ["WORKER_PATH", "WorkerHost", "WorkerRoute", "mount_workers"]

_LOG: Final = logging.getLogger(__name__)
WORKER_PATH: Final = "/v1/worker"
_CLOSE_SECONDS: Final = 2.0
_MOST_REASON: Final = 120
_RETRY: Final = {"Retry-After": "1"}


class WorkerHost(Protocol):
    """What serves workers."""

    @property
    def refusal(self) -> str:
        """Why workers cannot be served now; "" if they can."""

    def join(self, identity: WorkerIdentity, hello: Hello) -> Worker:
        """Take a worker in, and send it Welcome."""

    def receive(self, worker: Worker, frame: WorkerFrame, body: bytes) -> None:
        """Handle a frame of it.

        Raises:
            ProtocolError: the frame has no place here.
        """

    def leave(self, worker: Worker) -> None:
        """Its connection is lost."""


class WorkerRoute:
    """Serves the connections of workers."""

    def __init__(
        self, identify: Callable[[str], Awaitable[WorkerIdentity]], host: WorkerHost, settings: DispatchSettings
    ) -> None:
        self._identify = identify
        self._host = host
        self._settings = settings

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """A connection, from its token to its end."""
        token = bearer_token(request.headers)
        if token is None:
            raise unauthorized("expected header `Authorization: Bearer TOKEN`, got none")
        identity = await self._identify(token)
        self._require_host()
        socket = web.WebSocketResponse(timeout=_CLOSE_SECONDS, max_msg_size=FRAME_LIMIT, compress=False)
        await socket.prepare(request)
        about = {"function": str(identity.function), "pod": identity.pod.name}
        try:
            hello = await self._hello(socket)
            self._require_host()
            worker = self._host.join(identity, hello)
        except ProtocolError as error:
            _LOG.warning("worker refused", extra={**about, "error": str(error)})
            await _close(socket, WSCloseCode.PROTOCOL_ERROR, str(error))
            return socket
        except ApiError as error:
            await _close(socket, WSCloseCode.TRY_AGAIN_LATER, error.message)
            return socket
        _LOG.info("worker connected", extra={**about, "slots": hello.slots, "leases": len(hello.leases)})
        reason = "connection lost"
        try:
            reason = await self._serve(socket, worker, request)
        finally:
            worker.close()
            self._host.leave(worker)
            _LOG.info("worker disconnected", extra={**about, "reason": reason, "runs": len(worker.runs)})
        return socket

    def _require_host(self) -> None:
        refusal = self._host.refusal
        if refusal:
            raise ApiError(503, CODES[503], refusal, headers=_RETRY)

    async def _hello(self, socket: web.WebSocketResponse) -> Hello:
        try:
            message = await socket.receive(timeout=self._settings.hello)
        except TimeoutError:
            raise ProtocolError(f"expected a frame hello within {self._settings.hello:g} s, got none") from None
        if message.type is not WSMsgType.BINARY:
            raise ProtocolError(f"expected a binary frame hello, got {message.type.name}")
        frame, _ = decode_from_worker(message.data)
        if not isinstance(frame, Hello):
            raise ProtocolError(f"expected hello as the first frame, got {frame.TYPE}")
        if frame.version != PROTOCOL_VERSION:
            raise ProtocolError(f"expected version {PROTOCOL_VERSION} of the protocol, got {frame.version}")
        return frame

    async def _serve(self, socket: web.WebSocketResponse, worker: Worker, request: web.Request) -> str:
        """Read and write until one of both ends; returns why."""
        transport = request.transport
        sending = asyncio.create_task(self._send(socket, transport, worker), name=f"frames to {worker.identity.pod}")
        watch = _Silence(worker, request, self._settings.silence)
        try:
            return await self._read(socket, worker)
        except ProtocolError as error:
            _LOG.warning(
                "malformed frame of a worker, closing", extra={"pod": worker.identity.pod.name, "error": str(error)}
            )
            await _close(socket, WSCloseCode.PROTOCOL_ERROR, str(error))
            return "malformed frame"
        finally:
            watch.stop()
            sending.cancel()
            await asyncio.wait([sending])

    async def _read(self, socket: web.WebSocketResponse, worker: Worker) -> str:
        now = asyncio.get_running_loop().time
        worker.heard = now()
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                raise ProtocolError(f"expected binary frames, got {message.type.name}")
            worker.heard = now()
            self._host.receive(worker, *decode_from_worker(message.data))
        return f"closed with {socket.close_code}"

    async def _send(self, socket: web.WebSocketResponse, transport: asyncio.Transport | None, worker: Worker) -> None:
        """Send what is queued; a worker that does not take it loses its connection."""
        try:
            while worker.is_open or worker.unsent:
                async with asyncio.timeout(self._settings.send):
                    await send_all(socket, transport, worker.unsent)
                worker.has_unsent.clear()
                if worker.is_open:
                    await worker.has_unsent.wait()
            await _close(socket, WSCloseCode.GOING_AWAY, "the activator ends this connection")
        except (TimeoutError, ClientError, ConnectionError):
            # The reader would wait for a peer that is gone, or does not read.
            worker.close()
            await _close(socket, WSCloseCode.POLICY_VIOLATION, "frames are not read in time")


class _Silence:
    """Aborts the connection of a worker that is not heard: one timer, whatever it sends."""

    def __init__(self, worker: Worker, request: web.Request, seconds: float) -> None:
        self._worker, self._request, self._seconds = worker, request, seconds
        self._loop = asyncio.get_running_loop()
        worker.heard = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._check)

    def stop(self) -> None:
        self._timer.cancel()

    def _check(self) -> None:
        left = self._worker.heard + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._check)
        elif self._request.transport is not None:
            _LOG.warning("worker is silent, closing", extra={"pod": self._worker.identity.pod.name})
            self._request.transport.abort()


async def _close(socket: web.WebSocketResponse, code: int, reason: str) -> None:
    with suppress(ClientError, ConnectionError, TimeoutError):
        await socket.close(code=code, message=reason.encode()[:_MOST_REASON])


def mount_workers(app: web.Application, route: WorkerRoute) -> None:
    """Serve workers in an application. All errors have one format."""
    app.middlewares.append(formatted)
    app.on_response_prepare.append(add_request_id)
    app[ERROR_RESPONSE] = bad_request_response
    app.router.add_get(WORKER_PATH, route.connect)
    app.router.add_route("*", "/{path:.*}", _unmatched)


async def _unmatched(_request: web.Request) -> web.StreamResponse:
    raise ApiError(404, CODES[404], f"there is no such route; workers connect to {WORKER_PATH}")
