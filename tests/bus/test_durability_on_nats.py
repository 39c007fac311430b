"""What survives on disk, and what happens when the disk is full."""

import asyncio
from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.bus import BusUnavailableError, OutcomeUnknownError, StorageFullError
from gpuruntime.testing.nats import NatsServer
from tests.bus.connected import QUEUE, RESULTS, connected

MANY = evolve(QUEUE, max_messages=-1)


async def test_every_acknowledged_publish_survives_kill_9(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(MANY)
        acknowledged: list[int] = []
        some = asyncio.Event()

        async def write(start: int) -> None:
            for number in range(start, 100_000, 16):
                try:
                    await bus.jetstream.publish(f"inv.{number}", bytes(1024))
                except BusUnavailableError:
                    return
                acknowledged.append(number)
                if len(acknowledged) >= 200:
                    some.set()

        writers = [asyncio.create_task(write(start)) for start in range(16)]
        await some.wait()
        nats_server.kill()
        await asyncio.wait(writers)
        await bus.wait_disconnected()
        nats_server.start()
        await bus.wait_connected()

        info = await bus.jetstream.stream_info("QUEUE", "inv.*")
        assert info is not None
        assert {f"inv.{number}" for number in acknowledged} <= info.subjects.keys()


async def test_a_write_of_unknown_outcome_is_repeated_with_the_same_id_and_stored_once(nats_server: NatsServer) -> None:
    async with connected(nats_server.options()) as bus:
        await bus.jetstream.ensure_stream(MANY)
        ids = [f"id-{number}" for number in range(64)]
        under_way = [
            asyncio.create_task(bus.jetstream.publish(f"inv.{name}", bytes(1024), message_id=name)) for name in ids
        ]
        await under_way[0]

        nats_server.kill()
        ended = await asyncio.gather(*under_way, return_exceptions=True)
        # All may have been answered before the kill: then nothing above waited for the loss of the connection.
        await bus.wait_disconnected()
        nats_server.start()
        await bus.wait_connected()
        for name in ids:
            await bus.jetstream.publish(f"inv.{name}", bytes(1024), message_id=name)

        info = await bus.jetstream.stream_info("QUEUE")
        assert all(not isinstance(end, BaseException) or isinstance(end, OutcomeUnknownError) for end in ended)
        assert info is not None
        assert info.messages == len(ids)


async def test_a_full_store_refuses_clearly_and_recovers_when_something_is_deleted(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "small", max_file=2**20) as server:
        async with connected(server.options()) as bus:
            await bus.jetstream.ensure_stream(RESULTS)
            # The server refuses when its limit is exceeded: the message that exceeds it is stored.
            for number in range(11):
                await bus.jetstream.publish(f"res.{number}", bytes(100_000), timeout=20)

            with pytest.raises(StorageFullError):
                await bus.jetstream.publish("res.more", bytes(100_000), timeout=20)
            for number in range(3):
                await bus.jetstream.purge("RESULTS", f"res.{number}", timeout=20)
            await bus.jetstream.publish("res.new", bytes(100_000), timeout=20)

            assert await bus.jetstream.last_message("RESULTS", "res.new") is not None
            assert await bus.jetstream.last_message("RESULTS", "res.3") is not None
