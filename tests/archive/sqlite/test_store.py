import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.api.invocations import ArchiveQuery
from gpuruntime.archive.cursors import Cursor, cursor_text
from gpuruntime.archive.sqlite import SqliteStore
from gpuruntime.archive.sqlite.queries import list_statement
from gpuruntime.archive.sqlite.store import SqliteOptions
from gpuruntime.archive.store import StoreCorruptError, StoreError, StoreFullError, StoreLockedError
from gpuruntime.meta import format_micros
from tests.archive.result_scenes import NOON, TTL, archived, key_of
from tests.archive.store_promises import StorePromises, follow

# Puts batches of ten for ever, and prints the number of each after it was committed.
WRITER = """
import asyncio, sys
from pathlib import Path
from gpuruntime.archive.sqlite import SqliteStore
from tests.archive.result_scenes import archived

async def main() -> None:
    store = SqliteStore(Path(sys.argv[1]))
    for number in range(1_000_000):
        await store.put([archived(f"{number}-{part}", after=number, body=b"x" * 5000) for part in range(10)])
        print(number, flush=True)

asyncio.run(main())
"""


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = SqliteStore(tmp_path / "results.db")
    yield made
    await made.close()


class TestSqliteStore(StorePromises):
    pass


async def test_a_process_that_is_killed_in_a_batch_leaves_whole_batches_and_all_that_were_committed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "results.db"
    committed = -1

    for turn in range(4):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(path), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        target = max(committed, 0) + 3 + turn
        while (number := int(await process.stdout.readline())) < target:
            pass
        # The next batch is under way now.
        os.kill(process.pid, signal.SIGKILL)
        printed = (await process.stdout.read()).split()
        await process.wait()
        committed = max(committed, number, *map(int, printed[:-1] or [b"0"]))

    store = SqliteStore(path)
    found = [row.key.id async for page in follow(store, ArchiveQuery(limit=500)) for row in page]
    await store.close()
    batches = {name.partition("-")[0] for name in found}
    assert len(found) == 10 * len(batches)
    assert batches >= {str(number) for number in range(committed + 1)}


async def test_ten_thousand_results_are_found_by_id_and_in_pages(store: SqliteStore) -> None:
    for start in range(0, 10_000, 250):
        await store.put([archived(f"i{n}", after=n / 1000, body=str(n).encode()) for n in range(start, start + 250)])

    pages = [page async for page in follow(store, ArchiveQuery(namespace="ns", function="echo", limit=500))]

    assert [row.key.id for page in pages for row in page] == [f"i{n}" for n in range(9_999, -1, -1)]
    assert await store.body(key_of("i7777"), NOON) == b"7777"


LATE = format_micros(NOON + TTL)


@pytest.mark.parametrize(
    ("query", "sought"),
    [
        (ArchiveQuery(), "ended<?"),
        (ArchiveQuery(namespace="ns"), "namespace=? AND ended<?"),
        (ArchiveQuery(state="failed"), "state=? AND ended<?"),
        (ArchiveQuery(namespace="ns", function="echo"), "namespace=? AND function=? AND ended<?"),
        (
            ArchiveQuery(namespace="ns", function="echo", state="failed"),
            "namespace=? AND function=? AND state=? AND ended<?",
        ),
        (ArchiveQuery(since=LATE, until=LATE), "ended>? AND ended<?"),
    ],
)
async def test_the_last_page_is_found_by_its_place_in_an_index(
    store: SqliteStore, tmp_path: Path, query: ArchiveQuery, sought: str
) -> None:
    await store.put([archived("one")])
    statement = list_statement(evolve(query, cursor=cursor_text(Cursor(1, 1), query)))

    with closing(sqlite3.connect(tmp_path / "results.db")) as database:
        steps = database.execute(f"EXPLAIN QUERY PLAN {statement.text}", statement.parameters).fetchall()

    # Nothing is sorted, and the only upper bound is the cursor: with `until` beside it, SQLite seeks by that.
    assert [step[3] for step in steps] == [steps[0][3]]
    assert steps[0][3].endswith(f"({sought})")
    assert statement.text.count("<") == 1


async def test_a_round_of_expiry_is_short_however_large_the_bodies(store: SqliteStore) -> None:
    await store.put([archived(f"i{number}", body=bytes(3 * 2**20)) for number in range(15)])

    rounds = [await store.expire(NOON + TTL, timedelta(0)) for _ in range(3)]

    assert [(done.bodies, done.rows, done.more) for done in rounds] == [(11, 0, True), (4, 15, False), (0, 0, False)]


async def test_a_full_database_refuses_whole_batches_and_works_again_when_results_have_expired(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db", SqliteOptions(largest_bytes=2**20))
    await store.put([archived("first", body=bytes(600_000))])
    batch = [archived("small"), archived("large", after=TTL.total_seconds(), body=bytes(600_000))]

    with pytest.raises(StoreFullError, match=r"results\.db.*free space"):
        await store.put(batch)

    assert await store.get(key_of("small")) is None
    assert await store.body(key_of("first"), NOON) == bytes(600_000)
    assert (await store.expire(NOON + TTL, timedelta(days=7))).bodies == 1
    await store.put(batch)
    assert await store.body(key_of("large"), NOON + TTL) == bytes(600_000)
    await store.close()


async def test_the_file_shrinks_when_most_of_it_is_free(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put([archived(f"i{number}", body=bytes(100_000)) for number in range(50)])
    full = await store.size()

    for _ in range(6):
        await store.expire(NOON + TTL, timedelta(days=7))

    after = await store.size()
    assert full.bytes > 5_000_000
    assert after.bytes < full.bytes / 4
    await store.close()


async def test_a_locked_database_is_an_error_and_reads_go_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db", SqliteOptions(lock_seconds=0.05))
    await store.put([archived("one", body=b"x")])

    with closing(sqlite3.connect(tmp_path / "results.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLockedError, match="other process"):
            await store.put([archived("two")])
        read = await store.body(key_of("one"), NOON)
        other.execute("ROLLBACK")

    assert read == b"x"
    await store.put([archived("two")])
    assert await store.get(key_of("two")) is not None
    await store.close()


async def test_what_is_no_database_is_named_and_a_new_file_is_taken_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    path.write_bytes(b"no database" * 1000)
    store = SqliteStore(path)

    with pytest.raises(StoreCorruptError, match=r"results\.db.*move the file away"):
        await store.put([archived("one")])

    path.unlink()
    await store.put([archived("one")])
    assert await store.get(key_of("one")) is not None
    await store.close()


async def test_a_missing_directory_is_named_and_used_once_it_is_there(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "missing" / "results.db")

    with pytest.raises(StoreError, match=r"missing.*make its directory"):
        await store.get(key_of("one"))

    (tmp_path / "missing").mkdir()
    assert await store.get(key_of("one")) is None
    await store.close()


async def test_a_caller_that_is_cancelled_leaves_no_half_batch(store: SqliteStore) -> None:
    batch = [archived(f"i{number}", body=bytes(10_000)) for number in range(200)]

    writing = asyncio.create_task(store.put(batch))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing

    assert len((await store.list(ArchiveQuery(limit=500))).items) in {0, 200}
    await store.put(batch)
    assert len((await store.list(ArchiveQuery(limit=500))).items) == 200
