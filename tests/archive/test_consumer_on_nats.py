import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gpuruntime.api.invocations import RESULTS_STREAM, ArchiveQuery
from gpuruntime.archive.figures import ArchiveFigures
from gpuruntime.archive.lag import ArchiveLag
from gpuruntime.archive.sqlite import SqliteStore
from gpuruntime.archive.sqlite.store import SqliteOptions
from gpuruntime.archive.upkeep import LagWatch
from gpuruntime.testing.nats import NatsServer
from tests.archive.archive_scenes import archiving, results_stream
from tests.archive.result_scenes import NOON, key_of
from tests.archive.store_promises import follow
from tests.bus.connected import connected
from tests.product_scenes import eventually


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "results.db")
    yield made
    await made.close()


async def count(store: SqliteStore) -> int:
    return sum([len(page) async for page in follow(store, ArchiveQuery(limit=500))])


async def test_ten_thousand_results_are_archived_once_each(nats_server: NatsServer, store: SqliteStore) -> None:
    async with results_stream(nats_server) as results:
        async with archiving(nats_server, store) as figures:
            await results.end([key_of(f"i{number}") for number in range(10_000)])
            await results.archived()

        assert (figures.archived, figures.failures, figures.malformed) == (10_000, 0, 0)
        assert await count(store) == 10_000


async def test_a_result_has_the_body_and_the_time_of_its_message(nats_server: NatsServer, store: SqliteStore) -> None:
    key = key_of("a.b:c", function="with-dash")
    async with results_stream(nats_server) as results, archiving(nats_server, store):
        await results.end([key], body=b"\x00\xff")
        await results.archived()
        message = await results.bus.jetstream.last_message(RESULTS_STREAM, "res.>")

    row = await store.get(key)
    assert row is not None
    assert message is not None
    assert row.ended == message.time
    assert await store.body(key, NOON) == b"\x00\xff"


async def test_what_was_archived_before_a_restart_is_not_written_again(
    nats_server: NatsServer, store: SqliteStore
) -> None:
    async with results_stream(nats_server) as results:
        await results.end([key_of("before")])
        async with archiving(nats_server, store):
            await results.archived()
        await results.end([key_of("after")])
        async with archiving(nats_server, store) as figures:
            await results.archived()

    assert figures.archived == 1
    assert await count(store) == 2


async def test_what_cannot_be_read_is_counted_logged_and_acknowledged(
    nats_server: NatsServer, store: SqliteStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with results_stream(nats_server) as results:
        await results.bus.jetstream.publish("res.other", b"?")
        await results.bus.jetstream.publish("res.ns.echo.bad", b"?", {"Gpuruntime-Metadata": "{"})
        await results.bus.jetstream.publish("res.NS.echo.bad", b"?")
        await results.end([key_of("good")])
        async with archiving(nats_server, store) as figures:
            await results.archived()

    assert (figures.archived, figures.malformed) == (1, 3)
    assert sum("cannot be read" in record.message for record in caplog.records) == 3
    assert await count(store) == 1


async def test_nothing_is_lost_while_nats_is_killed_and_started_again(
    nats_server: NatsServer, store: SqliteStore
) -> None:
    async with results_stream(nats_server) as results, archiving(nats_server, store):
        for turn in range(3):
            await results.end([key_of(f"{turn}-{number}") for number in range(500)])
            await asyncio.to_thread(nats_server.kill)
            await asyncio.to_thread(nats_server.start)
            await results.bus.wait_connected()
        await results.archived()

    assert await count(store) == 1500


async def test_results_stay_in_nats_while_the_store_is_full_and_are_archived_afterwards(
    nats_server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full = SqliteStore(tmp_path / "results.db", SqliteOptions(largest_bytes=2**18))
    caplog.set_level(logging.INFO)
    async with results_stream(nats_server) as results:
        await results.end([key_of(f"i{number}") for number in range(100)], body=bytes(10_000))
        async with archiving(nats_server, full) as figures:
            await eventually(lambda: figures.failures > 2)
        await full.close()
        waiting = await results.unarchived()
        larger = SqliteStore(tmp_path / "results.db")
        async with archiving(nats_server, larger):
            await results.archived()

    assert waiting > 0
    assert any(record.message == "results cannot be archived" for record in caplog.records)
    assert await count(larger) == 100
    await larger.close()


async def test_an_archive_that_starts_before_the_stream_waits_for_it(
    nats_server: NatsServer, store: SqliteStore
) -> None:
    async with archiving(nats_server, store) as figures:
        await eventually(lambda: figures.failures > 1)
        async with results_stream(nats_server) as results:
            await results.end([key_of("one")])
            await results.archived()

    assert figures.archived == 1
    assert figures.problem == ""


async def test_a_stream_that_was_made_anew_is_archived_too(nats_server: NatsServer, store: SqliteStore) -> None:
    async with results_stream(nats_server) as results, archiving(nats_server, store) as figures:
        await results.end([key_of("one")])
        await results.archived()
        await results.bus.jetstream.delete_stream(RESULTS_STREAM)
        await eventually(lambda: figures.failures > 0)
        await results.make()
        await results.end([key_of("two")])
        await results.archived()

    assert await count(store) == 2


async def test_the_lag_is_what_the_server_says(nats_server: NatsServer) -> None:
    async with results_stream(nats_server) as results, connected(nats_server.options("result-store")) as bus:
        await results.end([key_of(f"i{number}") for number in range(7)])
        figures = ArchiveFigures(ArchiveLag(0.0))
        watch = asyncio.create_task(LagWatch(bus, figures).run())
        await eventually(lambda: figures.pending is not None)
        watch.cancel()
        await asyncio.wait([watch])

    assert figures.pending == 7
    assert figures.lag.seconds(100.0) == 100.0
    assert figures.account is not None
    assert figures.account.storage > 0
