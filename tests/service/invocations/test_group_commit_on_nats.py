import asyncio

import pytest

from gpuruntime.api.invocations import function_stream
from gpuruntime.bus import QueueFullError
from gpuruntime.service.errors import QueueLimitError, QueueUnavailableError
from gpuruntime.service.invocations.accept import Accepted
from gpuruntime.testing.nats import NatsServer
from tests.service.invocations.invocation_scenes import ECHO, Invoked, function, invoked


async def accepted_by(world: Invoked, count: int, prefix: str = "") -> list[Accepted]:
    """Invocations that were sent at once through one replica."""
    requests = [world.request(b"%d" % number, prefix and f"{prefix}{number}") for number in range(count)]
    return await asyncio.gather(*map(world.one.invoke, requests))


def batches(world: Invoked) -> int:
    assert world.one.queue is not None
    return int(sum(world.one.queue.accepting.figures.batches.counts))


async def test_many_at_once_are_stored_in_batches_each_with_its_own_sequence(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        accepted = await accepted_by(world, 300)

        assert batches(world) > 0
        assert sorted(each.sequence or 0 for each in accepted) == list(range(1, 301))
        for number, each in enumerate(accepted):
            if number % 50 == 0:
                stored = await world.admin.jetstream.last_message(function_stream(ECHO), f"inv.*.*.{each.key.id}")
                assert stored is not None
                assert (stored.sequence, stored.body) == (each.sequence, b"%d" % number)


async def test_one_duplicate_spoils_its_batch_and_nothing_else(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        first = await asyncio.gather(*(world.other.invoke(world.request(b"%d" % n, f"a{n}")) for n in (30, 60)))
        accepted = await accepted_by(world, 90, "a")

        assert [number for number, each in enumerate(accepted) if each.is_duplicate] == [30, 60]
        assert [accepted[30].sequence, accepted[60].sequence] == [each.sequence for each in first]
        assert await world.queued() == {f"a{number}" for number in range(90)}


async def test_a_full_queue_takes_as_many_as_fit_and_refuses_the_others(nats_server: NatsServer) -> None:
    async with invoked(nats_server, function(invocation={"maxQueued": 50})) as world:
        requests = [world.request(b"%d" % number) for number in range(120)]
        answers = await asyncio.gather(*map(world.one.invoke, requests), return_exceptions=True)

        assert sum(isinstance(answer, Accepted) for answer in answers) == 50
        assert sum(isinstance(answer, QueueLimitError) for answer in answers) == 70
        assert len(await world.queued()) == 50


async def test_callers_who_disconnect_while_they_wait_hold_up_no_others(nats_server: NatsServer) -> None:
    async with invoked(nats_server) as world:
        calls = [asyncio.create_task(world.one.invoke(world.request(b"%d" % number))) for number in range(200)]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for call in calls[100:]:
            call.cancel()
        kept = await asyncio.gather(*calls[:100])
        later = await world.one.invoke(world.request(b"later"))

        assert {each.key.id for each in (*kept, later)} <= await world.queued()


async def test_every_accepted_invocation_survives_kill_9_and_none_is_stored_twice(nats_server: NatsServer) -> None:
    async with invoked(nats_server, function(invocation={"maxQueued": 100_000})) as world:
        accepted: list[str] = []
        refused = 0

        async def send(start: int) -> None:
            nonlocal refused
            for number in range(start, 400, 40):
                try:
                    answer = await world.one.invoke(world.request(b"%d" % number, f"k{number}"))
                except QueueUnavailableError:
                    refused += 1
                else:
                    accepted.append(answer.key.id)

        senders = [asyncio.create_task(send(start)) for start in range(40)]
        while len(accepted) < 100:
            await asyncio.wait(senders, timeout=0.01)
        nats_server.kill()
        await world.admin.wait_disconnected()
        nats_server.start()
        await asyncio.gather(*senders)
        await world.admin.wait_connected()

        assert set(accepted) <= await world.queued()
        assert len(accepted) == len(set(accepted))
        assert len(accepted) + refused == 400
        again = [await world.other.invoke(world.request(b"%d" % number, f"k{number}")) for number in range(0, 400, 40)]
        assert all(each.is_duplicate for each in again if each.key.id in accepted)


async def test_an_error_of_the_stream_reaches_the_one_whose_message_it_is(nats_server: NatsServer) -> None:
    async with invoked(nats_server, function(invocation={"maxQueued": 1})) as world:
        await world.one.invoke(world.request())

        with pytest.raises(QueueLimitError) as full:
            await world.one.invoke(world.request())

    assert isinstance(full.value.__cause__, QueueFullError)
