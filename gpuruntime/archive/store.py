"""The interface of a result store, and its errors. tests/archive/store_promises.py tests every store.

::

    StoreError
    ├── StoreFullError       no room: on the volume, or below the limit of the config
    ├── StoreLockedError     another process has the database for longer than a store waits
    ├── StoreCorruptError    the file is damaged, or is no database
    └── StoreVersionError    a newer release wrote the database

After every error nothing of the call is stored, and the next call tries again from the start: a store whose cause was
removed works again by itself.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from attrs import frozen

from gpuruntime.api.invocations import ArchiveQuery, InvocationKey
from gpuruntime.archive.results import ResultRow, StoredResult
from gpuruntime.meta import ObjectKey

__all__ = [
    "Expired",
    "ResultStore",
    "RowPage",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreLockedError",
    "StoreSize",
    "StoreVersionError",
]


class StoreError(Exception):
    """The database failed; the message names it, says why, and what to do."""


class StoreFullError(StoreError):
    """There is no room for another result."""


class StoreLockedError(StoreError):
    """Another process has the database."""


class StoreCorruptError(StoreError):
    """The database is damaged."""


class StoreVersionError(StoreError):
    """The database was written by a newer release."""


@frozen
class RowPage:
    """A page of a list. `next` is the cursor of the next one, "" on the last."""

    items: tuple[ResultRow, ...]
    next: str = ""


@frozen
class Expired:
    """What one round of expiry deleted. `more` says whether another round would delete something, too."""

    bodies: int
    rows: int
    more: bool


@frozen
class StoreSize:
    """What a store occupies."""

    bytes: int
    free_bytes: int
    """The part of it that holds nothing, and is used before it grows."""


class ResultStore(Protocol):
    """Ended invocations in a database.

    Guarantees:
        `put` is durable when it returns: neither a killed process nor a power failure takes it back. It writes all
        of a batch or nothing. A result that is put again changes nothing; of two results of one invocation the later
        one counts, in whatever order they are put.
        No call blocks the event loop. Reads do not wait for writes.
    """

    async def put(self, batch: Sequence[StoredResult]) -> None:
        """Store results."""

    async def get(self, key: InvocationKey) -> ResultRow | None:
        """A result without its body; None if there is none."""

    async def body(self, key: InvocationKey, now: datetime) -> bytes | None:
        """The body of a result; None if there is no such result, or its body has expired."""

    async def list(self, query: ArchiveQuery) -> RowPage:
        """A page of results, newest first.

        Raises:
            ArchiveCursorError: the cursor is not one of this query.
        """

    async def purge(self, function: ObjectKey) -> int:
        """Delete all results of a function; returns their number."""

    async def expire(self, now: datetime, keep_rows: timedelta) -> Expired:
        """One bounded round: delete bodies that have expired, and rows `keep_rows` after their bodies."""

    async def size(self) -> StoreSize:
        """What it occupies now."""

    async def close(self) -> None:
        """Finish what is under way, and release the database."""
