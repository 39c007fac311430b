"""A back-up of the database while a process writes to it."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from gpuruntime.archive.sqlite.errors import store_errors
from gpuruntime.archive.store import StoreCorruptError, StoreError

__all__ = ["back_up"]


def back_up(database: Path, target: Path) -> int:
    """Copy the database to a file that does not exist yet; returns the number of results in it.

    Guarantees:
        The copy is one state of the database, without gaps in its pages, and was checked. Writers go on meanwhile.
        The file has its name once it is whole and on the disk: a copy that failed leaves nothing under that name.

    Raises:
        StoreError: the database or the target cannot be used, or the copy is damaged.
    """
    if not database.is_file():
        raise StoreError(f"database {database}: expected a file, got none; name the database of the result store")
    if target.exists():
        raise StoreError(f"back-up {target}: expected a file that does not exist yet; choose another name")
    partial = target.with_name(f".{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        with store_errors(database):
            _copy(database, partial)
        with store_errors(target):
            count = _check(partial)
        _sync(partial)
        partial.rename(target)
        _sync(target.parent)
    except OSError as error:
        raise StoreError(f"back-up {target}: {(error.strerror or str(error)).lower()}") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def _copy(database: Path, target: Path) -> None:
    connection = sqlite3.connect(f"file:{quote(str(database.absolute()))}?mode=rw", uri=True, isolation_level=None)
    try:
        connection.execute("VACUUM INTO ?", (str(target),))
    finally:
        connection.close()


def _check(copy: Path) -> int:
    connection = sqlite3.connect(f"file:{quote(str(copy.absolute()))}?mode=ro", uri=True)
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        if found != "ok":
            raise StoreCorruptError(
                f"back-up of database: expected a sound copy, got: {found}; the database is damaged"
            )
        (count,) = connection.execute("SELECT count(*) FROM results").fetchone()
        return int(count)
    finally:
        connection.close()


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
