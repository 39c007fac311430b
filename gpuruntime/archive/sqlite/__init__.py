"""The result store on SQLite: one file, one process."""

from gpuruntime.archive.sqlite.backup import back_up
from gpuruntime.archive.sqlite.store import SqliteOptions, SqliteStore

__all__ = ["SqliteOptions", "SqliteStore", "back_up"]
