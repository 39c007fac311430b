"""A lane: one thread with one connection, on which calls run one after the other, outside of the event loop."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gpuruntime.archive.sqlite.errors import store_errors
from gpuruntime.archive.store import StoreError, StoreFullError, StoreLockedError

__all__ = ["Lane"]

T = TypeVar("T")


class Lane:
    """Runs calls on a connection that is opened by the first one, and again after an error.

    Guarantees:
        A call that failed leaves no transaction open. A damaged or replaced file is opened again by the next call.
        A call whose caller was cancelled is finished all the same, so a transaction is never half done.
    """

    def __init__(self, path: Path, name: str, open_connection: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._open = open_connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The result of a call.

        Raises:
            StoreError: the database failed, or the lane is closed.
        """
        if self._is_closed:
            raise StoreError(f"database {self._path}: the process is stopping")
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._call(work))

    async def close(self) -> None:
        """Close the connection after the calls that were begun, and end the thread."""
        self._is_closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, self._release)
        self._thread.shutdown(wait=False)

    def _call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with store_errors(self._path):
                if self._connection is None:
                    self._connection = self._open()
                return self._in_transaction(self._connection, work)
        except (StoreFullError, StoreLockedError):
            raise
        except StoreError:
            self._release()
            raise

    def _in_transaction(self, connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(connection)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
