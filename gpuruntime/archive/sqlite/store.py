"""The result store on SQLite, from the standard library.

::

    writer lane    one thread: put, purge, expire, in one transaction each
    reader lane    one thread: get, body, list; it sees the last commit, and does not wait for the writer (WAL)

A commit is on the disk when it returns (`synchronous = FULL`). A round of expiry deletes 500 rows or 32 MiB at most, so
that results wait for a fraction of a second. Deleted pages are used again; when more than a quarter
of the file is free, each round of expiry returns a few megabytes to the file system.
"""

import itertools
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote

from attrs import frozen

from gpuruntime.api.invocations import ArchiveQuery, InvocationKey
from gpuruntime.archive.cursors import Cursor, cursor_text
from gpuruntime.archive.results import ResultRow, StoredResult
from gpuruntime.archive.sqlite.lane import Lane
from gpuruntime.archive.sqlite.migrations import migrate
from gpuruntime.archive.sqlite.queries import COLUMNS, list_statement, micros, row_of
from gpuruntime.archive.store import Expired, RowPage, StoreSize
from gpuruntime.meta import ObjectKey, encode_bytes

__all__ = ["SqliteOptions", "SqliteStore"]

_MEBIBYTE: Final = 2**20
_ROUND: Final = 500
_ROUND_BYTES: Final = 32 * _MEBIBYTE
_FREE_SHARE: Final = 4
_PAGES_RETURNED: Final = 1024
_LARGEST_WAL: Final = 64 * _MEBIBYTE

_WRITE_ROW: Final = """
    INSERT INTO results (namespace, function, id, state, ended, expires, body_bytes, record)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (namespace, function, id) DO UPDATE SET
        state = excluded.state, ended = excluded.ended, expires = excluded.expires,
        body_bytes = excluded.body_bytes, record = excluded.record
    WHERE excluded.ended > results.ended
    RETURNING number
"""
_WRITE_BODY: Final = "INSERT OR REPLACE INTO bodies (number, expires, body) VALUES (?, ?, ?)"
_ONE: Final = "namespace = ? AND function = ? AND id = ?"


@frozen
class SqliteOptions:
    """Limits of a database.

    Args:
        largest_bytes: how large the file may become; None for no limit. Below the size of the volume, a full database
            can still delete what has expired.
        lock_seconds: how long a call waits for another process.
    """

    largest_bytes: int | None = None
    lock_seconds: float = 5.0


class SqliteStore:
    """A result store in one file, see `gpuruntime.archive.store.ResultStore`.

    The file is made by the first call. One process at a time should use it: others wait for each write of its.
    """

    def __init__(self, path: Path, options: SqliteOptions | None = None) -> None:
        self._path = path
        self._options = options or SqliteOptions()
        self._writer = Lane(path, "archive-writer", self._open_writer)
        self._reader = Lane(path, "archive-reader", self._open_reader)
        self._is_migrated = False

    async def put(self, batch: Sequence[StoredResult]) -> None:
        def write(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            for result in batch:
                _write(connection, result)
            connection.execute("COMMIT")

        await self._writer.run(write)

    async def get(self, key: InvocationKey) -> ResultRow | None:
        statement = f"SELECT {COLUMNS} FROM results WHERE {_ONE}"  # noqa: S608 - both are constants

        def read(connection: sqlite3.Connection) -> ResultRow | None:
            found = connection.execute(statement, (key.namespace, key.function, key.id)).fetchone()
            return None if found is None else row_of(found)

        await self._ensure_schema()
        return await self._reader.run(read)

    async def body(self, key: InvocationKey, now: datetime) -> bytes | None:
        statement = f"SELECT body FROM results JOIN bodies USING (number) WHERE {_ONE} AND bodies.expires > ?"  # noqa: S608 - constants

        def read(connection: sqlite3.Connection) -> bytes | None:
            found = connection.execute(statement, (key.namespace, key.function, key.id, micros(now))).fetchone()
            return None if found is None else bytes(found[0])

        await self._ensure_schema()
        return await self._reader.run(read)

    async def list(self, query: ArchiveQuery) -> RowPage:
        statement = list_statement(query)

        def read(connection: sqlite3.Connection) -> RowPage:
            found = connection.execute(statement.text, statement.parameters).fetchall()
            rows = tuple(map(row_of, found[: query.limit]))
            if len(found) <= query.limit:
                return RowPage(rows)
            return RowPage(rows, cursor_text(Cursor(micros(rows[-1].ended), rows[-1].number), query))

        await self._ensure_schema()
        return await self._reader.run(read)

    async def purge(self, function: ObjectKey) -> int:
        statement = "DELETE FROM results WHERE namespace = ? AND function = ?"
        return await self._writer.run(
            lambda connection: connection.execute(statement, (function.namespace, function.name)).rowcount
        )

    async def expire(self, now: datetime, keep_rows: timedelta) -> Expired:
        body_limit, row_limit = micros(now), micros(now - keep_rows)

        def delete(connection: sqlite3.Connection) -> Expired:
            bodies, more = _delete_bodies(connection, body_limit)
            # A row takes its body along: rows follow when all bodies are gone, or a round would have no limit.
            rows = 0 if more else _delete_rows(connection, row_limit)
            _return_free_pages(connection)
            return Expired(bodies, rows, more=more or rows == _ROUND)

        return await self._writer.run(delete)

    async def size(self) -> StoreSize:
        def read(connection: sqlite3.Connection) -> StoreSize:
            size = _pragma(connection, "page_size")
            return StoreSize(size * _pragma(connection, "page_count"), size * _pragma(connection, "freelist_count"))

        return await self._writer.run(read)

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()

    async def _ensure_schema(self) -> None:
        """Have the writer make the schema before the first read."""
        if not self._is_migrated:
            await self._writer.run(lambda _connection: None)

    def _open_writer(self) -> sqlite3.Connection:
        connection = self._connect("rwc")
        try:
            # Before the first table is made; afterwards it has no effect.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_WAL}")
            migrate(connection, self._path)
            if self._options.largest_bytes is not None:
                pages = max(self._options.largest_bytes // _pragma(connection, "page_size"), 1)
                connection.execute(f"PRAGMA max_page_count = {pages}")
        except BaseException:
            connection.close()
            raise
        self._is_migrated = True
        return connection

    def _open_reader(self) -> sqlite3.Connection:
        connection = self._connect("rw")
        connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self, mode: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"file:{quote(str(self._path.absolute()))}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=self._options.lock_seconds,
        )


def _write(connection: sqlite3.Connection, result: StoredResult) -> None:
    key, record = result.key, result.record
    values = (key.namespace, key.function, key.id, record.state, micros(result.ended), micros(result.expires))
    written = connection.execute(_WRITE_ROW, (*values, len(result.body), encode_bytes(record))).fetchone()
    if written is not None:
        connection.execute(_WRITE_BODY, (written[0], micros(result.expires), result.body))


def _delete_bodies(connection: sqlite3.Connection, limit: int) -> tuple[int, bool]:
    """Delete a round of bodies; returns their number, and whether there may be more."""
    found = connection.execute(
        f"SELECT number, length(body) FROM bodies WHERE expires <= ? ORDER BY expires LIMIT {_ROUND}",  # noqa: S608 - constant
        (limit,),
    ).fetchall()
    sizes = itertools.accumulate(size for _, size in found)
    # To free a body, SQLite reads all of its pages.
    chosen = [(number,) for (number, size), total in zip(found, sizes, strict=True) if total - size < _ROUND_BYTES]
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("DELETE FROM bodies WHERE number = ?", chosen)
    connection.execute("COMMIT")
    return len(chosen), len(chosen) < len(found) or len(found) == _ROUND


def _delete_rows(connection: sqlite3.Connection, limit: int) -> int:
    found = f"SELECT number FROM results WHERE expires <= ? ORDER BY expires LIMIT {_ROUND}"  # noqa: S608 - constant
    return connection.execute(f"DELETE FROM results WHERE number IN ({found})", (limit,)).rowcount  # noqa: S608 - constant


def _return_free_pages(connection: sqlite3.Connection) -> None:
    """Shrink the file a little: pages that will be used again are not returned."""
    if _pragma(connection, "freelist_count") * _FREE_SHARE > _pragma(connection, "page_count"):
        # One step returns one page, in a row without columns, after which `execute` stops: a script goes on to the end.
        connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_RETURNED})")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
