"""The section `database`: where results are archived."""

from datetime import timedelta
from pathlib import Path
from typing import Final

from attrs import frozen

from gpuruntime.processes.config.keys import key
from gpuruntime.processes.config.notations import FILE, count, duration

__all__ = ["DatabaseSection"]

_MEBIBYTE: Final = 2**20
_WEEK: Final = 7 * 24 * 3600.0


@frozen
class DatabaseSection:
    """The database of the result store. The file is made by the first start; its directory has to be there."""

    file: Path | None = key(FILE, None, "SQLite database on a local file system; NFS cannot lock it")
    largest_mib: int | None = key(
        count(1, 2**24), None, "how large it may become, in MiB; less than its volume, so that a full one can expire"
    )
    keep_rows: float = key(duration(), _WEEK, "how long an ended invocation is listed after its result has expired")

    @property
    def largest_bytes(self) -> int | None:
        return None if self.largest_mib is None else self.largest_mib * _MEBIBYTE

    @property
    def kept_rows(self) -> timedelta:
        return timedelta(seconds=self.keep_rows)
