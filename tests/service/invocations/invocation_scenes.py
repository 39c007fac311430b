"""Invocations on a real NATS server: replicas of the API, and a worker that ends what they accept.

Functions come from a scripted API server: nothing here depends on Kubernetes.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction
from gpuruntime.api.invocations import (
    ACTIVATOR_USER,
    API_USER,
    WORKERS_CONSUMER,
    Archive,
    InvocationKey,
    InvocationState,
    ResultRecord,
    RunRecord,
    function_stream,
    key_of_subject,
    metadata_headers,
    read_queued,
    result_subject,
    run_subject,
)
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.bus import Bus, Delivery
from gpuruntime.meta import ObjectKey, decode, format_micros
from gpuruntime.service.invocations.accept import InvocationRequest
from gpuruntime.service.invocations.functions import Functions, watch_functions
from gpuruntime.service.invocations.results import ResultLog
from gpuruntime.service.invocations.streams import ensure_queue, ensure_shared_streams
from gpuruntime.service.invocations.use_cases import InvocationService, QueueUseCases
from gpuruntime.testing.nats import ADMIN, NatsServer
from tests.bus.connected import connected
from tests.control.operator_scenes import scripted_cache, serve
from tests.control.scenes import running

__all__ = ["ECHO", "NAMESPACE", "Invoked", "Worker", "function", "invoked", "known_functions", "replica"]

NAMESPACE: Final = "runtime-instance"
ECHO: Final = ObjectKey(NAMESPACE, "echo")
_PATH: Final = f"/apis/runtime.lokiwager.io/v1alpha1/namespaces/{NAMESPACE}/gpufunctions"


def function(name: str = "echo", **parts: Any) -> dict[str, Any]:
    """A function as the API server has it. `parts` are fields of its spec."""
    meta = {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1", "generation": 1}
    # The server reserves what a queue may have.
    limits = {"maxQueuedBytes": "16Mi", **parts.pop("invocation", {})}
    return {"metadata": meta, "spec": {"specName": "g1.1", "image": "echo", "invocation": limits, **parts}}


@frozen
class Worker:
    """What an activator and its worker do: take a request, say that it runs, end it, answer its caller."""

    bus: Bus

    async def take(self, key: ObjectKey = ECHO) -> Delivery:
        """Take the next request, and say that it runs."""
        async with self.bus.jetstream.pull(function_stream(key), WORKERS_CONSUMER) as pull:
            pull.add_credit(1)
            delivery = await anext(pull)
        record = RunRecord(delivery.delivery_count, "unit-1", "pod-1", format_micros(datetime.now(UTC)))
        subject = run_subject(key_of_subject(delivery.subject))
        await self.bus.jetstream.publish(subject, b"", metadata_headers(record))
        return delivery

    async def end(
        self,
        delivery: Delivery,
        body: bytes | None = None,
        state: InvocationState = InvocationState.SUCCEEDED,
        *,
        replies: bool = True,
        ttl_millis: int = 3_600_000,
        is_kept: bool = False,
    ) -> bool:
        """End a request, by default with its own payload; returns whether this end counts.

        With `is_kept`, NATS has the result until it is purged, whatever its TTL.
        """
        queued = read_queued(delivery.headers)
        record = ResultRecord(
            state.value,
            request_hash=queued.request_hash,
            mode=queued.mode,
            status_code=200,
            content_type=queued.content_type,
            attempt=delivery.delivery_count,
            worker="unit-1",
            worker_namespace=NAMESPACE,
            accepted_at=format_micros(delivery.time),
            started_at=format_micros(datetime.now(UTC)),
            ended_at=format_micros(datetime.now(UTC)),
            result_ttl_millis=ttl_millis,
        )
        returned = delivery.body if body is None else body
        if is_kept:
            subject = result_subject(key_of_subject(delivery.subject))
            await self.bus.jetstream.publish(subject, returned, metadata_headers(record))
        committed = await ResultLog(self.bus).commit(key_of_subject(delivery.subject), record, returned)
        await self.bus.ack(delivery.ack_subject, confirmed=True)
        if queued.reply and replies:
            self.bus.send(queued.reply, committed.body, metadata_headers(committed.record))
        return committed.won

    async def serve(self, key: ObjectKey = ECHO) -> None:
        """End requests as they come, until cancelled."""
        while True:
            await self.end(await self.take(key))


@frozen
class Invoked:
    """Two replicas of the API, a worker, and an administrator who sees everything."""

    server: NatsServer
    functions: Functions
    one: InvocationService
    other: InvocationService
    worker: Worker
    admin: Bus

    def request(
        self, payload: bytes = b'"hello"', own_id: str = "", name: str = "echo", **parts: Any
    ) -> InvocationRequest:
        """A request to a function."""
        return InvocationRequest(self.functions.to_invoke(name), payload, own_id, **parts)

    def key(self, invocation_id: str, name: str = "echo") -> InvocationKey:
        return InvocationKey(NAMESPACE, name, invocation_id)

    async def queued(self, key: ObjectKey = ECHO) -> set[str]:
        """The IDs in the queue of a function."""
        info = await self.admin.jetstream.stream_info(function_stream(key), "inv.>")
        return set() if info is None else {key_of_subject(subject).id for subject in info.subjects}

    async def accepted(self, key: ObjectKey = ECHO) -> None:
        """Wait until the queue of a function has something."""
        while not await self.queued(key):  # noqa: ASYNC110 - a queue has no event
            await asyncio.sleep(0.01)


@asynccontextmanager
async def known_functions(objects: Sequence[Mapping[str, Any]]) -> AsyncIterator[Functions]:
    """Functions in the cache of a process."""
    async with scripted_cache() as (server, cache):
        serve(server, _PATH, "GPUFunction", [dict(each) for each in objects])
        functions = Functions(watch_functions(cache, Namespaces()), Namespaces().instance)
        async with running(cache):
            await cache.synced()
            yield functions


@asynccontextmanager
async def replica(
    server: NatsServer, functions: Functions, archive: Archive | None = None
) -> AsyncIterator[InvocationService]:
    """A replica of the API, with a connection of its own and the permissions of its user."""
    async with connected(server.options(API_USER.name)) as bus:
        queue = QueueUseCases.of(bus, functions, archive)
        task = asyncio.create_task(queue.writer.run())
        try:
            yield InvocationService(functions, queue, archive)
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def invoked(
    server: NatsServer, *objects: Mapping[str, Any], archive: Archive | None = None
) -> AsyncIterator[Invoked]:
    """Two replicas of the API with these functions, whose queues are there."""
    chosen = objects or (function(),)
    async with AsyncExitStack() as stack:
        functions = await stack.enter_async_context(known_functions(chosen))
        activator = await stack.enter_async_context(connected(server.options(ACTIVATOR_USER.name)))
        await ensure_shared_streams(activator)
        for each in chosen:
            await ensure_queue(activator, decode(GPUFunction, each))
        yield Invoked(
            server,
            functions,
            await stack.enter_async_context(replica(server, functions, archive)),
            await stack.enter_async_context(replica(server, functions, archive)),
            Worker(activator),
            await stack.enter_async_context(connected(server.options(ADMIN.name))),
        )
