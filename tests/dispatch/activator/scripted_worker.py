"""A worker that a test scripts: it speaks the real protocol over a real WebSocket, and does only what the test says."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Self

from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType
from attrs import define, field, frozen

from gpuruntime.dispatch.activator.workers.route import WORKER_PATH
from gpuruntime.dispatch.protocol import (
    ActivatorFrame,
    Cancel,
    Committed,
    Confirmed,
    Drain,
    Heartbeat,
    HeldLease,
    Hello,
    Release,
    Run,
    RunResult,
    Welcome,
    WorkerFrame,
    decode_from_activator,
    encode_frame,
)

__all__ = ["Answer", "ScriptedWorker", "TakenRun", "working"]


@frozen
class TakenRun:
    """A run that came, with its payload."""

    frame: Run
    body: bytes


@frozen
class Answer:
    """What a scripted function returns."""

    body: bytes = b""
    state: str = "succeeded"
    failure_class: str = ""
    error: str = ""


Function = Callable[[TakenRun], Awaitable[Answer | None]]
"""What is done with a run; None sends no result."""


@define(eq=False)
class ScriptedWorker:
    """A sidecar with a scripted function. It reconnects only when the test says so."""

    token: str
    slots: int = 1
    revision: str = ""
    function: Function | None = None
    taken: list[TakenRun] = field(factory=list)
    committed: list[Committed] = field(factory=list)
    cancelled: list[Cancel] = field(factory=list)
    confirmed: list[Confirmed] = field(factory=list)
    welcome: Welcome | None = None
    leases: dict[str, HeldLease] = field(factory=dict)
    results: dict[str, tuple[RunResult, bytes]] = field(factory=dict)
    changed: asyncio.Event = field(factory=asyncio.Event)
    drained: asyncio.Event = field(factory=asyncio.Event)
    closed: asyncio.Event = field(factory=asyncio.Event)
    close_code: int | None = None
    heartbeats: bool = True
    _socket: ClientWebSocketResponse | None = None
    _tasks: set["asyncio.Task[None]"] = field(factory=set)

    @asynccontextmanager
    async def connected(self, url: str) -> AsyncIterator[Self]:
        """Connect, with all leases and results that it has; at the end of the block the connection is cut."""
        self.closed.clear()
        self.drained.clear()
        async with (
            ClientSession() as session,
            session.ws_connect(
                f"{url}{WORKER_PATH}", headers={"Authorization": f"Bearer {self.token}"}, max_msg_size=2**24
            ) as socket,
        ):
            self._socket = socket
            await self.send(Hello(self.slots, self.revision, leases=tuple(self.leases.values())))
            for result, body in list(self.results.values()):
                await self.send(result, body)
            reading = asyncio.create_task(self._read(socket))
            try:
                yield self
            finally:
                reading.cancel()
                if socket._response.connection is not None:
                    transport = socket._response.connection.transport
                    if transport is not None:
                        transport.abort()
                await asyncio.wait([reading])
                self._socket = None

    async def send(self, frame: WorkerFrame, body: bytes = b"") -> None:
        """Send a frame."""
        if self._socket is not None and not self._socket.closed:
            await self._socket.send_bytes(encode_frame(frame, body))

    @staticmethod
    def held(run: TakenRun) -> HeldLease:
        """The lease of a run, as Hello has it."""
        return HeldLease(run.frame.lease, run.frame.id, run.frame.attempt)

    async def disconnect(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            await self._socket.close()

    async def send_raw(self, data: bytes) -> None:
        """Send a WebSocket message that may be no frame."""
        assert self._socket is not None
        await self._socket.send_bytes(data)

    async def beat(self) -> None:
        """Send a heartbeat."""
        await self.send(Heartbeat(tuple(self.leases)))

    async def answer(self, run: TakenRun, answer: Answer) -> None:
        """Send the result of a run, and keep a copy."""
        frame = RunResult(
            run.frame.lease,
            run.frame.id,
            run.frame.attempt,
            answer.state,
            answer.failure_class,
            answer.error,
            200,
            "application/json",
            execution_millis=1,
        )
        self.results[frame.lease] = (frame, answer.body)
        await self.send(frame, answer.body)

    async def release(self, run: TakenRun) -> None:
        """Give a run back."""
        self.leases.pop(run.frame.lease, None)
        await self.send(Release(run.frame.lease, run.frame.id))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition on what came holds."""
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    async def stop(self) -> None:
        """Cancel scripted functions that still run."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _read(self, socket: ClientWebSocketResponse) -> None:
        beating: asyncio.Task[None] | None = None
        try:
            async for message in socket:
                if message.type is not WSMsgType.BINARY:
                    continue
                frame, body = decode_from_activator(message.data)
                self._take(frame, body)
                if isinstance(frame, Welcome) and self.heartbeats:
                    beating = asyncio.create_task(self._beat(frame.heartbeat_millis / 1000))
                self.changed.set()
        finally:
            if beating is not None:
                beating.cancel()
            self.close_code = socket.close_code
            self.closed.set()
            self.changed.set()

    async def _beat(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self.beat()

    def _take(self, frame: ActivatorFrame, body: bytes) -> None:
        match frame:
            case Welcome():
                self.welcome = frame
                for lease in frame.lost_leases:
                    self._forget(lease)
            case Run():
                run = TakenRun(frame, body)
                self.taken.append(run)
                self.leases[frame.lease] = self.held(run)
                if self.function is not None:
                    task = asyncio.create_task(self._execute(run, self.function))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
            case Committed():
                self.committed.append(frame)
                self._forget(frame.lease)
            case Cancel():
                self.cancelled.append(frame)
            case Confirmed():
                self.confirmed.append(frame)
                for lease in frame.lost:
                    self._forget(lease)
            case Drain():
                self.drained.set()

    def _forget(self, lease: str) -> None:
        self.leases.pop(lease, None)
        self.results.pop(lease, None)

    async def _execute(self, run: TakenRun, function: Function) -> None:
        answer = await function(run)
        if answer is not None:
            await self.answer(run, answer)


@asynccontextmanager
async def working(url: str, worker: ScriptedWorker) -> AsyncIterator[ScriptedWorker]:
    """A worker that is connected and welcome for the length of the block."""
    async with worker.connected(url):
        try:
            await worker.until(lambda: worker.welcome is not None)
            yield worker
        finally:
            await worker.stop()
