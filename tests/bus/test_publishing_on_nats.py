"""What a publish promises, on a real server."""

import asyncio

import pytest
from attrs import evolve

from gpuruntime.bus import (
    BatchRefusedError,
    Bus,
    MessageTooLargeError,
    OutgoingMessage,
    PublishAck,
    QueueFullError,
    StreamMissingError,
    SubjectTakenError,
)
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import QUEUE, RESULTS, connected


async def test_a_publish_is_stored_with_its_headers_and_read_from_the_leader(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)

        ack = await bus.jetstream.publish("inv.a", b"\x00\xff", {"Content-Type": "text/plain; charset=utf-8"})
        found = await bus.jetstream.last_message("QUEUE", "inv.a")
        direct = await bus.jetstream.last_message_direct("QUEUE", "inv.a")

        assert ack == PublishAck("QUEUE", 1)
        assert found is not None
        assert direct is not None
        assert (found.subject, found.sequence, found.body) == ("inv.a", 1, b"\x00\xff")
        assert found.headers == {"Content-Type": "text/plain; charset=utf-8"}
        assert (direct.body, direct.sequence, direct.time) == (found.body, found.sequence, found.time)
        assert await bus.jetstream.last_message("QUEUE", "inv.b") is None
        assert await bus.jetstream.last_message_direct("QUEUE", "inv.b") is None


async def test_a_subject_holds_one_message_and_is_free_again_after_a_purge(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        await bus.jetstream.publish("inv.a", b"first")

        with pytest.raises(SubjectTakenError) as refused:
            await bus.jetstream.publish("inv.a", b"second")
        purged = await bus.jetstream.purge("QUEUE", "inv.a")
        again = await bus.jetstream.publish("inv.a", b"third")

        assert refused.value.code == 10077
        assert purged == 1
        assert again.sequence == 2


async def test_a_full_queue_is_another_error_than_a_taken_subject(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(evolve(QUEUE, max_messages=1))
        await bus.jetstream.publish("inv.a", b"first")

        with pytest.raises(QueueFullError) as by_messages:
            await bus.jetstream.publish("inv.b", b"second")
        await bus.jetstream.ensure_stream(evolve(QUEUE, max_bytes=1000))
        with pytest.raises(QueueFullError) as by_bytes:
            await bus.jetstream.publish("inv.c", bytes(2000))

        assert by_messages.value.code == by_bytes.value.code == 10077


async def test_of_fifty_create_only_writers_one_wins(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as one, connected(nats_server.options()) as other:
        await one.jetstream.ensure_stream(RESULTS)

        async def write(bus: Bus, number: int) -> bool:
            try:
                await bus.jetstream.publish("res.a", b"%d" % number, expect_last_subject_sequence=0)
            except SubjectTakenError:
                return False
            return True

        won = await asyncio.gather(*(write(one if number % 2 else other, number) for number in range(50)))
        found = await one.jetstream.last_message("RESULTS", "res.a")

        assert sum(won) == 1
        assert found is not None
        assert found.body == b"%d" % won.index(True)


async def test_the_same_message_id_is_stored_once_also_after_it_was_acknowledged(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        first = await bus.jetstream.publish("inv.a", b"x", message_id="a-1")

        queued = await bus.jetstream.publish("inv.a", b"x", message_id="a-1")
        await bus.jetstream.purge("QUEUE", "inv.a")
        gone = await bus.jetstream.publish("inv.a", b"x", message_id="a-1")

        assert queued == gone == PublishAck("QUEUE", first.sequence, duplicate=True)
        assert await bus.jetstream.last_message("QUEUE", "inv.a") is None


async def test_a_message_is_larger_than_the_stream_or_the_server_takes(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(evolve(QUEUE, max_message_size=1000))

        with pytest.raises(MessageTooLargeError):
            await bus.jetstream.publish("inv.a", bytes(1001))
        with pytest.raises(MessageTooLargeError, match=rf"inv\.a: expected at most {bus.max_payload} bytes, got"):
            await bus.jetstream.publish("inv.a", bytes(bus.max_payload + 1))


async def test_a_subject_that_no_stream_takes_is_an_error_at_once(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        with pytest.raises(StreamMissingError, match=r"inv\.a: no stream takes this subject"):
            await bus.jetstream.publish("inv.a", b"x", timeout=60)


async def test_a_batch_is_stored_as_a_whole(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)

        ack = await bus.jetstream.publish_batch(
            [OutgoingMessage(f"inv.{number}", b"x", {"N": str(number)}, f"id-{number}") for number in range(50)]
        )
        again = await bus.jetstream.publish("inv.7", b"x", message_id="id-7")

        info = await bus.jetstream.stream_info("QUEUE")
        stored = await bus.jetstream.last_message("QUEUE", "inv.49")
        assert ack.sequence == 50
        assert info is not None
        assert info.messages == 50
        assert stored is not None
        assert stored.headers["N"] == "49"
        assert again.duplicate


@pytest.mark.parametrize("spoiler", ["duplicate", "taken", "full"])
async def test_a_batch_with_one_message_that_is_refused_stores_nothing(nats_server: NatsServer, spoiler: str) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(evolve(QUEUE, max_messages=2 if spoiler == "full" else 100))
        await bus.jetstream.publish("inv.1", b"x", message_id="id-1")
        batch = {
            "duplicate": [OutgoingMessage("inv.0", b"x"), OutgoingMessage("inv.2", b"x", message_id="id-1")],
            "taken": [OutgoingMessage("inv.0", b"x"), OutgoingMessage("inv.1", b"x")],
            "full": [OutgoingMessage("inv.0", b"x"), OutgoingMessage("inv.2", b"x")],
        }[spoiler]

        with pytest.raises(BatchRefusedError):
            await bus.jetstream.publish_batch(batch)

        info = await bus.jetstream.stream_info("QUEUE")
        assert info is not None
        assert info.messages == 1


async def test_a_result_ends_with_its_time_to_live(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(RESULTS)
        await bus.jetstream.publish("res.a", b"x", expect_last_subject_sequence=0, ttl=0.5)

        async with asyncio.timeout(20):
            while await bus.jetstream.last_message("RESULTS", "res.a") is not None:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.1)
        again = await bus.jetstream.publish("res.a", b"y", expect_last_subject_sequence=0)

        assert again.sequence == 2
