"""Conditional and partial reads of a file: ETag, Last-Modified, If-* headers, and one byte range. Pure."""

import os
import re
from collections.abc import Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import Final

from attrs import frozen

__all__ = ["FileVersion", "Part", "UnsatisfiableRangeError", "part_of"]

_RANGE: Final = re.compile(r"bytes=(?P<first>[0-9]{0,19})-(?P<last>[0-9]{0,19})")


class UnsatisfiableRangeError(Exception):
    """A range begins after the end of the file."""


@frozen
class FileVersion:
    """What identifies the content of a file, as far as its metadata tell."""

    etag: str
    modified: int
    size: int

    @classmethod
    def of(cls, found: os.stat_result) -> "FileVersion":
        etag = f'"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"'
        return cls(etag, int(found.st_mtime), found.st_size)

    @property
    def last_modified(self) -> str:
        return formatdate(self.modified, usegmt=True)

    def is_unchanged_since(self, header: str | None) -> bool:
        """Whether If-Modified-Since names this version or a later one; a malformed date is ignored."""
        if header is None:
            return False
        try:
            return self.modified <= parsedate_to_datetime(header).timestamp()
        except (TypeError, ValueError, OverflowError):
            return False


@frozen
class Part:
    """The bytes of a file to send, from `start` up to `end`, which is not included."""

    start: int
    end: int
    is_whole: bool

    @property
    def size(self) -> int:
        return self.end - self.start


def part_of(version: FileVersion, headers: Mapping[str, str]) -> Part:
    """The part that a GET request is for. Several ranges, and malformed ones, are ignored: the file is sent whole.

    Raises:
        UnsatisfiableRangeError: the range begins after the end of the file.
    """
    whole = Part(0, version.size, is_whole=True)
    parts = _RANGE.fullmatch(headers.get("Range", "").replace(" ", ""))
    condition = headers.get("If-Range")
    if parts is None or (condition is not None and condition not in {version.etag, version.last_modified}):
        return whole
    first, last = parts["first"], parts["last"]
    if not first and not last:
        return whole
    if not first:
        start, end = max(version.size - int(last), 0), version.size
    else:
        start, end = int(first), min(int(last) + 1, version.size) if last else version.size
        if last and int(last) < start:
            return whole
    if start >= version.size or start >= end:
        raise UnsatisfiableRangeError(f"expected a range within {version.size} bytes")
    return Part(start, end, is_whole=False)
