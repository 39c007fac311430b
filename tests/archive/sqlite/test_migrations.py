import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpuruntime.archive.sqlite import SqliteStore
from gpuruntime.archive.sqlite.migrations import MIGRATIONS, migrate
from gpuruntime.archive.store import StoreVersionError
from tests.archive.result_scenes import archived, key_of

FIRST = ("CREATE TABLE one (x)",)
SECOND = ("CREATE TABLE two (x)", "INSERT INTO two VALUES (1)")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "results.db", isolation_level=None)) as opened:
        yield opened


def tables(database: sqlite3.Connection) -> list[str]:
    return [name for (name,) in database.execute("SELECT name FROM sqlite_master ORDER BY name")]


def test_only_missing_migrations_are_made(database: sqlite3.Connection, tmp_path: Path) -> None:
    migrate(database, tmp_path, (FIRST,))

    migrate(database, tmp_path, (FIRST, SECOND))
    migrate(database, tmp_path, (FIRST, SECOND))

    assert tables(database) == ["one", "two"]
    assert database.execute("SELECT count(*) FROM two").fetchone() == (1,)


def test_a_migration_that_fails_leaves_nothing_and_is_made_by_the_next_start(
    database: sqlite3.Connection, tmp_path: Path
) -> None:
    with pytest.raises(sqlite3.OperationalError):
        migrate(database, tmp_path, (FIRST, (*SECOND, "CREATE nonsense")))
    left = tables(database)

    migrate(database, tmp_path, (FIRST, SECOND))

    assert left == ["one"]
    assert tables(database) == ["one", "two"]


async def test_a_database_of_a_newer_release_is_not_touched(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put([archived("one")])
    await store.close()
    with closing(sqlite3.connect(tmp_path / "results.db")) as database:
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")

    newer = SqliteStore(tmp_path / "results.db")
    with pytest.raises(StoreVersionError, match=r"expected schema version 1 or older, got 2"):
        await newer.get(key_of("one"))
    await newer.close()
