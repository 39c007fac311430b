import asyncio

import pytest

from gpuruntime.api.invocations import InvocationMode, cancel_subject
from gpuruntime.service.errors import InvocationEndedError, ObjectNotFoundError, QueueUnavailableError
from gpuruntime.testing.nats import NatsServer
from tests.service.invocations.invocation_scenes import function, invoked, known_functions, replica


async def test_a_cancelled_call_is_answered_wherever_it_waits(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        call = asyncio.create_task(world.one.call(world.request(own_id="one", mode=InvocationMode.SYNC), 60))
        await world.accepted()
        cancelled = await world.other.cancel(world.key("one"))
        called = await call

        assert called.ended is not None
        assert called.ended.record.state == cancelled.record.state == "cancelled"
        assert await world.queued() == set()


async def test_the_worker_of_a_cancelled_run_is_asked_to_stop_each_time(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        accepted = await world.one.invoke(world.request())
        await world.worker.take()
        async with world.admin.subscribe(cancel_subject(accepted.key)) as asked:
            await world.admin.settled(10)
            await world.one.cancel(accepted.key)
            await anext(asked)
            again = await world.other.cancel(accepted.key)
            await anext(asked)

    assert (again.record.attempt, again.record.worker) == (1, "unit-1")


async def test_of_a_result_and_two_cancels_at_once_one_counts(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        for number in range(10):
            accepted = await world.one.invoke(world.request(b"%d" % number))
            delivery = await world.worker.take()
            won, *cancels = await asyncio.gather(
                world.worker.end(delivery),
                world.one.cancel(accepted.key),
                world.other.cancel(accepted.key),
                return_exceptions=True,
            )
            found = await world.one.status(accepted.key)

            ended = [isinstance(one, InvocationEndedError) for one in cancels]
            assert ended == [won, won]
            assert found.record.state == ("succeeded" if won else "cancelled")  # type: ignore[union-attr]  # it has ended


async def test_what_is_not_there_cannot_be_cancelled(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        with pytest.raises(ObjectNotFoundError, match="invocation nothing: not found among those of function echo"):
            await world.one.cancel(world.key("nothing"))


@pytest.mark.parametrize("wildcard", ["*", ">", "a*", "a\nb", "a" * 129])
async def test_an_id_that_is_a_wildcard_names_no_invocation(nats_server: NatsServer, wildcard: str) -> None:
    async with invoked(nats_server) as world:
        await world.one.invoke(world.request(own_id="one"))

        with pytest.raises(ObjectNotFoundError, match="there is none, an ID has at most 128 letters"):
            await world.one.cancel(world.one.key(wildcard, "echo"))

        assert await world.queued() == {"one"}


async def test_without_streams_the_queue_is_not_available(nats_server: NatsServer) -> None:
    async with known_functions([function()]) as functions, replica(nats_server, functions) as api:
        with pytest.raises(QueueUnavailableError, match="the queue is not there yet"):
            await api.status(api.key("one", "echo"))
