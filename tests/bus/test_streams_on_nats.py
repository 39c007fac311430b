"""Streams and consumers on a real server: made, changed and found equal."""

from attrs import evolve

from gpuruntime.bus import ConsumerConfig
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import QUEUE, RESULTS, connected

WORKERS = ConsumerConfig(name="workers", ack_wait=20.0)


async def test_an_equal_stream_and_consumer_cost_no_write(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus, bus.subscribe("$JS.API.>") as asked:
        for _ in range(2):
            for config in (QUEUE, RESULTS):
                await bus.jetstream.ensure_stream(config)
            await bus.jetstream.ensure_consumer("QUEUE", WORKERS)
        await bus.publish("$JS.API.END")

        subjects = []
        async for message in asked:
            if message.subject == "$JS.API.END":
                break
            subjects.append(message.subject)
        assert [subject for subject in subjects if "INFO" not in subject] == [
            "$JS.API.STREAM.CREATE.QUEUE",
            "$JS.API.STREAM.CREATE.RESULTS",
            "$JS.API.CONSUMER.CREATE.QUEUE.workers",
        ]


async def test_a_changed_limit_is_written_and_messages_stay(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        await bus.jetstream.ensure_consumer("QUEUE", WORKERS)
        await bus.jetstream.publish("inv.a", b"x")

        await bus.jetstream.ensure_stream(evolve(QUEUE, max_messages=7, metadata={"function": "hello"}))
        await bus.jetstream.ensure_consumer("QUEUE", evolve(WORKERS, ack_wait=5.0))

        stream = await bus.jetstream.stream_info("QUEUE")
        consumer = await bus.jetstream.consumer_info("QUEUE", "workers")
        assert stream is not None
        assert consumer is not None
        assert (stream.config["max_msgs"], stream.messages) == (7, 1)
        assert (consumer.config["ack_wait"], consumer.num_pending) == (5_000_000_000, 1)


async def test_what_does_not_exist_is_none_and_its_deletion_false(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)

        assert await bus.jetstream.stream_info("NOTHING") is None
        assert await bus.jetstream.consumer_info("QUEUE", "nothing") is None
        assert await bus.jetstream.consumer_info("NOTHING", "nothing") is None
        assert not await bus.jetstream.delete_stream("NOTHING")
        assert not await bus.jetstream.delete_consumer("QUEUE", "nothing")
        assert not await bus.jetstream.delete_message("QUEUE", 1)
        assert await bus.jetstream.stream_names() == ("QUEUE",)
        assert await bus.jetstream.delete_stream("QUEUE")


async def test_messages_are_scanned_in_order_and_deleted_by_sequence(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(QUEUE)
        for name in "abc":
            await bus.jetstream.publish(f"inv.{name}", name.encode())

        deleted = await bus.jetstream.delete_message("QUEUE", 2)

        found = []
        sequence = 0
        while (message := await bus.jetstream.next_message("QUEUE", "inv.*", sequence + 1)) is not None:
            found.append(message.body)
            sequence = message.sequence
        assert deleted
        assert found == [b"a", b"c"]
