"""Pulls on a real server: credit, redelivery, and what survives restarts."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from gpuruntime.bus import Bus, BusPermissionError, ConsumerConfig, ConsumerGoneError, Delivery, Pull
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import QUEUE, connected

WORKERS = ConsumerConfig(name="workers", ack_wait=20.0)
NEXT = "$JS.API.CONSUMER.MSG.NEXT.QUEUE.workers"


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[Bus]:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        await bus.jetstream.ensure_consumer("QUEUE", WORKERS)
        yield bus


async def fill(bus: Bus, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        await bus.jetstream.publish(f"inv.{number}", b"%d" % number)


async def take(pull: Pull, count: int) -> list[Delivery]:
    async with asyncio.timeout(30):
        return [await anext(pull) for _ in range(count)]


async def waiting(bus: Bus, count: int) -> None:
    """Return when the consumer has `count` requests that wait."""
    async with asyncio.timeout(20):
        while True:
            info = await bus.jetstream.consumer_info("QUEUE", "workers")
            if info is not None and info.num_waiting == count:
                return


async def test_no_more_is_delivered_than_there_is_credit_for(bus: Bus) -> None:
    await fill(bus, 10)

    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(3)
        found = await take(pull, 3)
        info = await bus.jetstream.consumer_info("QUEUE", "workers")
        pull.add_credit(2)
        found += await take(pull, 2)

    assert [delivery.body for delivery in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert [delivery.delivery_count for delivery in found] == [1] * 5
    assert (found[4].stream, found[4].stream_sequence, found[4].pending) == ("QUEUE", 5, 5)
    assert info is not None
    assert (info.num_ack_pending, info.num_pending) == (3, 7)


async def test_a_delivery_knows_when_its_message_was_stored_and_infos_know_the_time_of_the_server(bus: Bus) -> None:
    await fill(bus, 1)
    stored = await bus.jetstream.last_message("QUEUE", "inv.0")

    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(1)
        [delivery] = await take(pull, 1)
    consumer = await bus.jetstream.consumer_info("QUEUE", "workers")
    stream = await bus.jetstream.stream_info("QUEUE")

    assert stored is not None
    assert consumer is not None
    assert stream is not None
    assert delivery.time == stored.time == stream.first_time
    assert delivery.time < consumer.server_time <= stream.server_time


async def test_credit_that_is_taken_back_is_no_longer_at_the_server(bus: Bus) -> None:
    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(5)
        await waiting(bus, 1)

        pull.set_credit(0)
        await waiting(bus, 0)
        await fill(bus, 5)
        pull.set_credit(2)
        found = await take(pull, 2)

        info = await bus.jetstream.consumer_info("QUEUE", "workers")
        assert [delivery.body for delivery in found] == [b"0", b"1"]
        assert info is not None
        assert (info.num_ack_pending, info.num_pending, pull.credit) == (2, 3, 0)


async def test_credit_in_many_small_steps_is_all_used(bus: Bus) -> None:
    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        for _ in range(80):
            pull.add_credit(1)
        await waiting(bus, 32)

        await fill(bus, 90)
        found = await take(pull, 80)

        info = await bus.jetstream.consumer_info("QUEUE", "workers")
        assert sorted(int(delivery.body) for delivery in found) == list(range(80))
        assert info is not None
        assert (info.num_pending, info.num_waiting) == (10, 0)


async def test_requests_that_end_in_time_are_made_anew(bus: Bus) -> None:
    async with bus.jetstream.pull("QUEUE", "workers", expires=1.0, heartbeat=0.4) as pull:
        pull.add_credit(2)
        await waiting(bus, 1)

        async with bus.subscribe(NEXT) as requests, asyncio.timeout(20):
            asked = [(await anext(requests)).body for _ in range(2)]
        await fill(bus, 3)
        found = await take(pull, 2)

        info = await bus.jetstream.consumer_info("QUEUE", "workers")
        assert all(b'"batch":2' in body for body in asked)
        assert len(found) == 2
        assert info is not None
        assert info.num_ack_pending == 2


async def test_an_acknowledgement_counts_from_any_connection(nats_server: NatsServer, bus: Bus) -> None:
    await fill(bus, 2)
    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(2)
        first, second = await take(pull, 2)

    async with connected(nats_server.options()) as other:
        await other.ack(first.ack_subject, confirmed=True)
        await other.ack(second.ack_subject, confirmed=True)

    info = await bus.jetstream.stream_info("QUEUE")
    assert info is not None
    assert info.messages == 0


async def test_an_extension_from_another_connection_keeps_a_message_from_being_delivered_again(
    nats_server: NatsServer, bus: Bus
) -> None:
    await bus.jetstream.ensure_consumer("QUEUE", ConsumerConfig(name="workers", ack_wait=2.0))
    await fill(bus, 2)
    async with connected(nats_server.options()) as other, bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(2)
        kept, dropped = await take(pull, 2)

        async def extend() -> None:
            while True:
                await other.extend(kept.ack_subject)
                await asyncio.sleep(0.2)

        extending = asyncio.create_task(extend())
        pull.add_credit(2)
        again = await take(pull, 1)
        # It would be delivered once more, perhaps before the other one.
        await bus.ack(again[0].ack_subject, confirmed=True)
        extending.cancel()
        later = await take(pull, 1)

    assert (again[0].subject, again[0].delivery_count) == (dropped.subject, 2)
    assert (later[0].subject, later[0].delivery_count) == (kept.subject, 2)


async def test_a_stale_acknowledgement_ends_what_was_delivered_again(bus: Bus) -> None:
    await fill(bus, 1)
    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(1)
        [first] = await take(pull, 1)
        await bus.nak(first.ack_subject)
        pull.add_credit(1)
        [second] = await take(pull, 1)

        await bus.ack(first.ack_subject, confirmed=True)

    info = await bus.jetstream.stream_info("QUEUE")
    assert (second.delivery_count, second.stream_sequence) == (2, first.stream_sequence)
    assert info is not None
    assert info.messages == 0


async def test_a_message_that_is_given_back_with_a_delay_comes_after_it(bus: Bus) -> None:
    await fill(bus, 1)
    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(2)
        [first] = await take(pull, 1)
        began = time.monotonic()
        await bus.nak(first.ack_subject, delay=0.7)
        [second] = await take(pull, 1)

    assert second.delivery_count == 2
    assert time.monotonic() - began >= 0.7


async def test_a_pull_goes_on_after_the_server_was_killed_and_no_acknowledged_publish_is_lost(
    nats_server: NatsServer, bus: Bus
) -> None:
    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(20)
        await waiting(bus, 1)
        await fill(bus, 5)
        before = await take(pull, 5)

        nats_server.kill()
        await bus.wait_disconnected()
        nats_server.start()
        await bus.wait_connected()
        await fill(bus, 5, first=5)
        found = {int(delivery.body): delivery for delivery in before}
        while len(found) < 10:
            # What was delivered in the last moments before the kill may come again, as a first delivery.
            [delivery] = await take(pull, 1)
            found[int(delivery.body)] = delivery
        for delivery in found.values():
            await bus.ack(delivery.ack_subject, confirmed=True)

        info = await bus.jetstream.stream_info("QUEUE")
        assert sorted(found) == list(range(10))
        assert info is not None
        assert info.messages == 0


async def test_a_pull_whose_requests_died_silently_asks_anew_after_two_heartbeats(bus: Bus) -> None:
    async with bus.jetstream.pull("QUEUE", "workers", expires=60.0, heartbeat=0.3) as pull:
        pull.add_credit(3)
        await waiting(bus, 1)
        # A consumer that is deleted and made again has no requests; the pull is not informed if it looks away.
        bus.stop_subscription(pull._number)
        await bus.settled(5)
        await fill(bus, 2)

        found = await take(pull, 2)

        assert len(found) == 2


@pytest.mark.parametrize("act", ["consumer", "stream"])
async def test_a_deleted_consumer_ends_its_pulls(bus: Bus, act: str) -> None:
    await fill(bus, 1)
    async with bus.jetstream.pull("QUEUE", "workers") as pull:
        pull.add_credit(2)
        await take(pull, 1)

        if act == "consumer":
            await bus.jetstream.delete_consumer("QUEUE", "workers")
        else:
            await bus.jetstream.delete_stream("QUEUE")

        async with asyncio.timeout(20):
            with pytest.raises(ConsumerGoneError):
                await anext(pull)


async def test_a_pull_of_a_consumer_that_does_not_exist_is_an_error(bus: Bus) -> None:
    async with bus.jetstream.pull("QUEUE", "nothing") as pull, asyncio.timeout(20):
        pull.add_credit(1)
        with pytest.raises(ConsumerGoneError, match="no consumer nothing"):
            await anext(pull)


async def test_a_user_without_the_permission_to_pull_gets_an_error(nats_server: NatsServer) -> None:
    async with (
        connected(nats_server.options("runtime-api")) as api,
        api.jetstream.pull("QUEUE", "workers") as pull,
        asyncio.timeout(20),
    ):
        pull.add_credit(1)
        with pytest.raises(BusPermissionError, match=r"msg\.next"):
            await anext(pull)
