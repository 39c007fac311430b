"""An activator whose frames a test sends and receives by hand."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from aiohttp import WSCloseCode, WSMsgType, web

from gpuruntime.dispatch.protocol import (
    FRAME_LIMIT,
    ActivatorFrame,
    Cancel,
    Committed,
    Confirmed,
    Heartbeat,
    Hello,
    Run,
    RunResult,
    Welcome,
    WorkerFrame,
    decode_from_worker,
    encode_frame,
)

__all__ = ["PATIENCE", "ScriptedActivator", "WorkerConnection", "scripted_activator", "until"]

F = TypeVar("F", bound=WorkerFrame)

PATIENCE: Final = 60
"""Seconds for what should take milliseconds: the machine may be busy."""


async def until(condition: Callable[[], Any]) -> None:
    """Wait for a state that announces itself by no event."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


class WorkerConnection:
    """A connection of a sidecar."""

    def __init__(self, socket: web.WebSocketResponse, hello: Hello, token: str) -> None:
        self.hello = hello
        self.token = token
        self.closed = asyncio.Event()
        self.close_code: int | None = None
        self.heartbeats: list[Heartbeat] = []
        self._socket = socket
        self._frames: asyncio.Queue[tuple[WorkerFrame, bytes]] = asyncio.Queue()

    async def welcome(self, *, heartbeat_millis: int = 100, lost: tuple[str, ...] = ()) -> "WorkerConnection":
        await self.send(Welcome("scripted", heartbeat_millis, lost))
        return self

    async def send(self, frame: ActivatorFrame, body: bytes = b"") -> None:
        await self._socket.send_bytes(encode_frame(frame, body))

    async def send_raw(self, data: bytes | str) -> None:
        await (self._socket.send_str(data) if isinstance(data, str) else self._socket.send_bytes(data))

    async def run(self, id_: str = "inv-1", payload: bytes = b"null", **fields: Any) -> Run:
        """Send a run with the lease `lease-<id>`, unless another one is given."""
        options: dict[str, Any] = {
            "lease": f"lease-{id_}",
            "attempt": 1,
            "timeout_millis": 0,
            "content_type": "application/json",
        }
        run = Run(id=id_, **(options | fields))
        await self.send(run, payload)
        return run

    async def cancel(self, run: Run, reason: str = "") -> None:
        await self.send(Cancel(run.lease, run.id, reason))

    async def commit(self, run: Run) -> None:
        await self.send(Committed(run.lease, run.id))

    async def confirm(self, *leases: str, lost: tuple[str, ...] = ()) -> None:
        await self.send(Confirmed(leases, lost))

    async def receive(self, kind: type[F]) -> tuple[F, bytes]:
        """The next frame that is no heartbeat, which has to be of a kind."""
        async with asyncio.timeout(PATIENCE):
            frame, body = await self._frames.get()
        assert isinstance(frame, kind), frame
        return frame, body

    async def result(self) -> tuple[RunResult, bytes]:
        return await self.receive(RunResult)

    async def heartbeat_where(self, leases: tuple[str, ...]) -> None:
        """Wait for a heartbeat with exactly these leases that is sent from now on."""
        seen = len(self.heartbeats)
        await until(lambda: any(beat.leases == leases for beat in self.heartbeats[seen:]))

    async def until_closed(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.closed.wait()

    async def close(self) -> None:
        await self._socket.close(code=WSCloseCode.GOING_AWAY)

    def cut(self) -> None:
        """End the connection as a process that is killed does."""
        transport = self._socket._req.transport if self._socket._req else None
        if transport is not None:
            transport.abort()

    async def pump(self) -> None:
        try:
            async for message in self._socket:
                if message.type is not WSMsgType.BINARY:
                    break
                frame, body = decode_from_worker(message.data)
                if isinstance(frame, Heartbeat):
                    self.heartbeats.append(frame)
                else:
                    self._frames.put_nowait((frame, body))
        finally:
            self.close_code = self._socket.close_code
            self.closed.set()


class ScriptedActivator:
    """Takes connections of sidecars, but answers those with a token in `refusals` with the status there."""

    def __init__(self) -> None:
        self.url = ""
        self.refusals: dict[str, int] = {}
        self.refused: list[str] = []
        self._connections: asyncio.Queue[WorkerConnection] = asyncio.Queue()

    async def connection(self, **welcome: Any) -> WorkerConnection:
        """The next connection, welcomed."""
        return await (await self.unwelcomed()).welcome(**welcome)

    async def unwelcomed(self) -> WorkerConnection:
        async with asyncio.timeout(PATIENCE):
            return await self._connections.get()

    async def ready_connection(self, slots: int = 1) -> WorkerConnection:
        """The first connection that offers slots; the framework is healthy."""
        while True:
            connection = await self.connection()
            if connection.hello.slots == slots:
                return connection

    async def handle(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "")
        if token in self.refusals:
            self.refused.append(token)
            return web.Response(status=self.refusals[token])
        socket = web.WebSocketResponse(max_msg_size=FRAME_LIMIT)
        await socket.prepare(request)
        message = await socket.receive()
        if message.type is WSMsgType.BINARY:
            hello, _ = decode_from_worker(message.data)
            assert isinstance(hello, Hello), hello
            connection = WorkerConnection(socket, hello, token)
            self._connections.put_nowait(connection)
            await connection.pump()
        return socket


@asynccontextmanager
async def scripted_activator(tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[ScriptedActivator]:
    """Serve on a loopback port, or on any free one."""
    activator, app = ScriptedActivator(), web.Application()
    app.router.add_get("/v1/worker", activator.handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls, reuse_address=True)
        await site.start()
        address = "wss://localhost" if tls else "ws://127.0.0.1"
        activator.url = f"{address}:{runner.addresses[0][1]}"
        yield activator
    finally:
        await runner.cleanup()
