"""The schema of the database, as a list of migrations. A released migration is never changed: append another one.

`user_version` of the file is the number of migrations that it has. Each is one transaction with its new version: a
process that dies in one leaves the file as it was.

::

    results    a row for each invocation, without its body: lists never read bodies
    bodies     until they expire
"""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuruntime.archive.store import StoreVersionError

__all__ = ["MIGRATIONS", "migrate"]

MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (
        """
        CREATE TABLE results (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            namespace TEXT NOT NULL,
            function TEXT NOT NULL,
            id TEXT NOT NULL,
            state TEXT NOT NULL,
            ended INTEGER NOT NULL,
            expires INTEGER NOT NULL,
            body_bytes INTEGER NOT NULL,
            record BLOB NOT NULL,
            UNIQUE (namespace, function, id)
        )
        """,
        "CREATE INDEX results_by_time ON results (ended, number)",
        "CREATE INDEX results_by_namespace ON results (namespace, ended, number)",
        "CREATE INDEX results_by_state ON results (state, ended, number)",
        "CREATE INDEX results_by_function ON results (namespace, function, ended, number)",
        "CREATE INDEX results_by_function_and_state ON results (namespace, function, state, ended, number)",
        "CREATE INDEX results_by_expiry ON results (expires)",
        """
        CREATE TABLE bodies (
            number INTEGER PRIMARY KEY REFERENCES results (number) ON DELETE CASCADE,
            expires INTEGER NOT NULL,
            body BLOB NOT NULL
        )
        """,
        "CREATE INDEX bodies_by_expiry ON bodies (expires)",
    ),
)


def migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Bring the schema of a database up to date. Several processes may do so at a time.

    Raises:
        StoreVersionError: a newer release wrote it.
        sqlite3.Error: it failed; the database is as it was after the last whole migration.
    """
    while (version := _version(connection)) < len(migrations):
        connection.execute("BEGIN IMMEDIATE")
        try:
            if _version(connection) == version:
                for statement in migrations[version]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    if version > len(migrations):
        raise StoreVersionError(
            f"database {path}: expected schema version {len(migrations)} or older, got {version}; run the release that"
            " wrote it, or a newer one, or restore a back-up of before"
        )


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)
