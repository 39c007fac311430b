"""Activators on a real NATS server, without a cluster: functions and pods are values of the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from aiohttp import web
from attrs import define, evolve, field, frozen

from gpuruntime.api.gpufunction import FunctionInvocation, GPUFunction, GPUFunctionSpec
from gpuruntime.api.invocations import (
    DEAD_LETTERS_STREAM,
    InvocationKey,
    QueuedInvocation,
    ResultRecord,
    dead_letter_subject,
    function_stream,
    metadata_headers,
    queue_subject,
    request_hash,
    wake_subject,
)
from gpuruntime.bus import Bus, StoredMessage
from gpuruntime.control import HttpAddress
from gpuruntime.control.serving import serving
from gpuruntime.dispatch.activator.activator import Activator
from gpuruntime.dispatch.activator.figures import DispatchFigures
from gpuruntime.dispatch.activator.settings import DispatchSettings
from gpuruntime.dispatch.activator.workers.identity import WorkerIdentity, WorkerPod
from gpuruntime.dispatch.activator.workers.route import WorkerRoute, mount_workers
from gpuruntime.endpoints.auth.access_control import unauthorized
from gpuruntime.meta import ObjectKey, ObjectMeta
from gpuruntime.service.invocations.results import EndedInvocation, ResultLog
from gpuruntime.service.invocations.streams import ensure_queue, ensure_shared_streams
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import connected

__all__ = ["ECHO", "FAST", "Dispatching", "Queue", "ServedActivator", "function_of", "identity_of"]

ECHO: Final = ObjectKey("ns", "echo")
ACK_WAIT: Final = 4.0
FAST: Final = DispatchSettings(
    ack_wait=ACK_WAIT,
    heartbeat=0.5,
    silence=2.0,
    ask=0.5,
    settle=4.0,
    check=0.5,
    record=1.0,
    retry=0.1,
    rest=0.1,
    drain=10.0,
)
"""Times of tests: the lease is long enough for a busy machine, and short enough to wait for."""


def function_of(key: ObjectKey = ECHO, **invocation: Any) -> GPUFunction:
    """A function with these fields of `spec.invocation`."""
    spec = GPUFunctionSpec(
        spec_name="g1.1", cpu="1", memory="1Gi", image="busybox", invocation=FunctionInvocation(**invocation)
    )
    return GPUFunction(metadata=ObjectMeta(name=key.name, namespace=key.namespace, uid=f"uid-{key.name}"), spec=spec)


def identity_of(token: str, function: ObjectKey = ECHO) -> WorkerIdentity:
    """The worker whose token is this: its pod has the name of the token."""
    return WorkerIdentity(function, ObjectKey(function.namespace, token), f"uid-{token}", f"unit-{token}")


@define(eq=False)
class GivenFunctions:
    """Functions as a test gives them."""

    known: dict[ObjectKey, GPUFunction] = field(factory=dict)
    handlers: list[Callable[[ObjectKey], None]] = field(factory=list)

    def get(self, key: ObjectKey) -> GPUFunction | None:
        return self.known.get(key)

    def keys(self) -> Iterable[ObjectKey]:
        return tuple(self.known)

    @asynccontextmanager
    async def watched(self, handler: Callable[[ObjectKey], None]) -> AsyncIterator[None]:
        self.handlers.append(handler)
        yield
        self.handlers.remove(handler)

    def put(self, function: GPUFunction) -> None:
        self.known[function.key] = function
        for handler in self.handlers:
            handler(function.key)


@define(eq=False)
class GivenPods:
    """Pods as a test gives them."""

    known: dict[ObjectKey, WorkerPod] = field(factory=dict)
    handlers: list[Callable[[str], None]] = field(factory=list)

    def get(self, key: ObjectKey) -> WorkerPod | None:
        return self.known.get(key)

    @asynccontextmanager
    async def watched(self, on_end: Callable[[str], None]) -> AsyncIterator[None]:
        self.handlers.append(on_end)
        yield
        self.handlers.remove(on_end)

    def put(self, identity: WorkerIdentity) -> None:
        """Have the pod of a worker run."""
        self.known[identity.pod] = WorkerPod(identity.pod, identity.pod_uid, identity.function.name, identity.unit)

    def end(self, identity: WorkerIdentity) -> None:
        """Have a pod end, as the cache shows it."""
        del self.known[identity.pod]
        for handler in self.handlers:
            handler(identity.pod_uid)


@frozen
class ServedActivator:
    """An activator that serves at a URL."""

    activator: Activator
    figures: DispatchFigures
    bus: Bus
    url: str
    _nats: "asyncio.Task[None]"
    _site: AsyncExitStack
    _running: "asyncio.Task[None]"

    async def stop(self) -> None:
        """End it as SIGTERM does: it drains."""
        self._running.cancel()
        await asyncio.wait([self._running])

    async def kill(self) -> None:
        """End it as SIGKILL does: NATS hears nothing more of it, and then its connections are cut."""
        self._nats.cancel()
        await asyncio.wait([self._nats])
        await self._site.aclose()


@frozen
class Queue:
    """The queue of a function, as the API uses it, and the results."""

    bus: Bus
    function: GPUFunction

    def key(self, invocation_id: str) -> InvocationKey:
        return InvocationKey(self.function.key.namespace, self.function.key.name, invocation_id)

    async def accept(self, invocation_id: str, payload: bytes = b"{}", **queued: Any) -> InvocationKey:
        """Accept an invocation."""
        key = self.key(invocation_id)
        request = QueuedInvocation(request_hash(payload, content_type="application/json"), **queued)
        await self.bus.jetstream.publish(queue_subject(key), payload, metadata_headers(request))
        await self.bus.publish(wake_subject(self.function.key))
        return key

    async def ended(self, key: InvocationKey) -> EndedInvocation:
        """The result, once there is one."""
        found = await ResultLog(self.bus).wait(key, 60)
        assert found is not None, f"{key} has no result"
        return found

    async def end(self, key: InvocationKey, record: ResultRecord) -> None:
        """Store a result, as another process does."""
        await ResultLog(self.bus).commit(key, record)

    async def letter(self, key: InvocationKey) -> StoredMessage | None:
        """The kept request of an invocation."""
        return await self.bus.jetstream.last_message(DEAD_LETTERS_STREAM, dead_letter_subject(key))

    async def length(self) -> int:
        """The messages in the queue, running ones included."""
        info = await self.bus.jetstream.stream_info(function_stream(self.function.key))
        return 0 if info is None else info.messages

    async def emptied(self) -> None:
        """Return when the queue is empty."""
        while await self.length():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.02)


@define(eq=False)
class Dispatching:
    """A NATS server with streams, and any number of activators on it."""

    server: NatsServer
    bus: Bus
    settings: DispatchSettings = FAST
    functions: GivenFunctions = field(factory=GivenFunctions)
    pods: GivenPods = field(factory=GivenPods)
    workers: dict[str, WorkerIdentity] = field(factory=dict)

    @classmethod
    @asynccontextmanager
    async def on(cls, server: NatsServer) -> "AsyncIterator[Dispatching]":
        async with connected(server.options()) as bus:
            await ensure_shared_streams(bus)
            yield cls(server, bus)

    async def serve(self, function: GPUFunction | None = None, workers: Iterable[str] = ("w1", "w2")) -> Queue:
        """Make a function with its queue, whose workers have these tokens."""
        chosen = function or function_of()
        await ensure_queue(self.bus, chosen, ack_wait=self.settings.ack_wait)
        self.functions.put(chosen)
        for token in workers:
            self.workers[token] = identity_of(token, chosen.key)
            self.pods.put(self.workers[token])
        return Queue(self.bus, chosen)

    def change(self, function: GPUFunction) -> None:
        """Change a function."""
        self.functions.put(function)

    @asynccontextmanager
    async def activator(self, name: str = "a") -> AsyncIterator[ServedActivator]:
        """An activator, for the length of the block; it drains at its end, unless it was killed."""
        bus, figures = Bus(self.server.options("activator", name)), DispatchFigures()
        nats = asyncio.create_task(bus.run())
        activator = Activator(name, bus, self.functions, self.pods, figures, self.settings)
        running = asyncio.create_task(activator.run())
        app = web.Application()
        mount_workers(app, WorkerRoute(self._identify, activator, self.settings))
        async with AsyncExitStack() as site:
            address = await site.enter_async_context(serving(app, HttpAddress("127.0.0.1", 0)))
            try:
                await activator.key.known()
                yield ServedActivator(activator, figures, bus, address.url, nats, site, running)
            finally:
                running.cancel()
                await asyncio.wait([running])
                nats.cancel()
                await asyncio.wait([nats])

    async def _identify(self, token: str) -> WorkerIdentity:
        found = self.workers.get(token)
        if found is None:
            raise unauthorized("unknown token")
        return found


def paused(function: GPUFunction, *, is_paused: bool = True) -> GPUFunction:
    """The same function, paused."""
    return evolve(function, spec=evolve(function.spec, paused=is_paused))
