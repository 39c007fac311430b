import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from gpuruntime.archive.figures import ArchiveFigures
from gpuruntime.archive.lag import ArchiveLag
from gpuruntime.archive.sqlite import SqliteStore
from gpuruntime.archive.upkeep import Expiry
from tests.archive.result_scenes import NOON, TTL, archived, key_of
from tests.product_scenes import eventually

WEEK = timedelta(days=7)


@asynccontextmanager
async def expiring(store: SqliteStore, after: timedelta) -> AsyncIterator[ArchiveFigures]:
    """Expiry at work, by a clock that stands still."""
    figures = ArchiveFigures(ArchiveLag(0.0))
    task = asyncio.create_task(Expiry(store, figures, WEEK, lambda: NOON + after).run())
    yield figures
    task.cancel()
    await asyncio.wait([task])


async def test_all_that_expired_is_deleted_at_once_and_the_rest_is_kept(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put([archived(f"i{number}", body=b"x") for number in range(1200)])
    await store.put([archived("later", after=1, body=b"y")])

    async with expiring(store, TTL) as figures:
        await eventually(lambda: figures.size is not None)

    assert (figures.expired_bodies, figures.expired_rows) == (1200, 0)
    assert await store.body(key_of("later"), NOON) == b"y"
    await store.close()


async def test_rows_are_deleted_after_a_week_and_a_second_start_finds_nothing_to_do(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put([archived(f"i{number}", body=b"x") for number in range(10)])

    async with expiring(store, TTL + WEEK) as first:
        await eventually(lambda: first.size is not None)
    async with expiring(store, TTL + WEEK) as second:
        await eventually(lambda: second.size is not None)

    assert (first.expired_rows, second.expired_bodies, second.expired_rows) == (10, 0, 0)
    assert await store.get(key_of("i1")) is None
    await store.close()
