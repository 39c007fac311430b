"""Errors of SQLite as errors of a store: what happened, and what to do."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gpuruntime.archive.store import StoreCorruptError, StoreError, StoreFullError, StoreLockedError

__all__ = ["store_errors"]

_FULL: Final = "free space on its volume, or raise the limit; results stay in NATS meanwhile"
_LOCKED: Final = "end the other process that uses it"
_CORRUPT: Final = (
    "move the file away, with those that end with -wal and -shm, and start with a back-up of it or without one: what"
    " NATS still has is archived again"
)
# The primary code is the lower byte: extended codes say more than is needed here.
_KINDS: Final[Mapping[int, tuple[type[StoreError], str]]] = {
    sqlite3.SQLITE_FULL: (StoreFullError, _FULL),
    sqlite3.SQLITE_BUSY: (StoreLockedError, _LOCKED),
    sqlite3.SQLITE_LOCKED: (StoreLockedError, _LOCKED),
    sqlite3.SQLITE_CORRUPT: (StoreCorruptError, _CORRUPT),
    sqlite3.SQLITE_NOTADB: (StoreCorruptError, _CORRUPT),
    sqlite3.SQLITE_CANTOPEN: (StoreError, "make its directory, writable for this process"),
    sqlite3.SQLITE_READONLY: (StoreError, "make it writable for this process"),
    sqlite3.SQLITE_PERM: (StoreError, "make it writable for this process"),
}
_OTHERWISE: Final = (StoreError, "see the log of the machine for errors of its disk")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Raise errors of SQLite as errors of the store at a path.

    Raises:
        StoreError: one of its classes.
    """
    try:
        yield
    except sqlite3.Error as error:
        kind, advice = _KINDS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, _OTHERWISE)
        raise kind(f"database {path}: {error}; {advice}") from error
