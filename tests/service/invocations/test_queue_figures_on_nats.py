"""The figures of a queue, from a real server, as the user of the API."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from attrs import frozen

from gpuruntime.api.gpufunction import GPUFunction, GPUFunctionSpec
from gpuruntime.api.invocations import API_USER, WORKERS_CONSUMER, InvocationKey, function_stream, queue_subject
from gpuruntime.bus import Bus
from gpuruntime.meta import ObjectMeta
from gpuruntime.service.errors import QueueUnavailableError
from gpuruntime.service.invocations.queue_figures import QueueFigures, QueueReads
from gpuruntime.service.invocations.streams import ensure_queue
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import connected

FUNCTION = GPUFunction(ObjectMeta(name="hello", namespace="n", uid="1"), GPUFunctionSpec("g1.1"))


@frozen
class Queue:
    """The queue of the function. `admin` makes and fills it, `reads` are those of the API."""

    admin: Bus
    reads: QueueReads

    async def fill(self, *ids: str) -> None:
        for one in ids:
            await self.admin.jetstream.publish(queue_subject(InvocationKey("n", "hello", one)), b"x" * 100)

    async def figures(self) -> QueueFigures:
        return await self.reads.figures(FUNCTION)


@pytest.fixture
async def queue(nats_server: NatsServer) -> AsyncIterator[Queue]:
    async with connected(nats_server.options()) as admin, connected(nats_server.options(API_USER.name)) as api:
        yield Queue(admin, QueueReads(api))


async def test_an_empty_queue_has_no_age(queue: Queue) -> None:
    await ensure_queue(queue.admin, FUNCTION)

    found = await queue.figures()

    assert found == QueueFigures(queued=0, running=0, bytes=0, oldest_age_seconds=None)


async def test_what_waits_and_what_runs_are_counted_apart(queue: Queue) -> None:
    await ensure_queue(queue.admin, FUNCTION)
    await queue.fill("a", "b", "c")
    waiting = await queue.figures()
    async with queue.admin.jetstream.pull(function_stream(FUNCTION.key), WORKERS_CONSUMER) as pull:
        pull.add_credit(2)
        first, _ = await anext(pull), await anext(pull)
        running = await queue.figures()
        await queue.admin.ack(first.ack_subject, confirmed=True)
        pull.add_credit(1)
        await anext(pull)

        taken = await queue.figures()

    assert (waiting.queued, waiting.running) == (3, 0)
    assert waiting.bytes > 300
    assert (running.queued, running.running) == (1, 2)
    assert (taken.queued, taken.running, taken.oldest_age_seconds) == (0, 2, None)


async def test_the_oldest_is_the_first_that_no_worker_has_got(queue: Queue) -> None:
    await ensure_queue(queue.admin, FUNCTION)
    stream, second = function_stream(FUNCTION.key), queue_subject(InvocationKey("n", "hello", "second"))
    await queue.fill("first")
    await asyncio.sleep(0.5)  # age comes with time only
    await queue.fill("second")
    first_waits = await queue.figures()
    async with queue.admin.jetstream.pull(stream, WORKERS_CONSUMER) as pull:
        pull.add_credit(1)
        await anext(pull)

        second_waits = await queue.figures()

    stored = await queue.admin.jetstream.last_message(stream, second)
    later = await queue.admin.jetstream.stream_info(stream)
    assert stored is not None
    assert later is not None
    assert (first_waits.oldest_age_seconds or 0) >= 0.5
    assert second_waits.oldest_age_seconds is not None
    assert 0 <= second_waits.oldest_age_seconds <= (later.server_time - stored.time).total_seconds()


async def test_a_function_without_a_queue_and_a_server_that_is_away_are_unavailable(
    queue: Queue, nats_server: NatsServer
) -> None:
    with pytest.raises(QueueUnavailableError, match="n/hello has no queue yet"):
        await queue.figures()
    nats_server.kill()

    with pytest.raises(QueueUnavailableError, match="n/hello: the queue is not available"):
        await queue.figures()


async def test_without_nats_there_are_no_queues() -> None:
    with pytest.raises(QueueUnavailableError, match=r"set serverless\.nats\.urls"):
        await QueueReads(None).figures(FUNCTION)
