"""Paths of files in a volume, as they come in a URL. Pure.

A path is split at its slashes before it is decoded, and decoded once. So no encoding of a slash or of a dot reaches the
file system as one, and a name that looks encoded after that is the name of a file.
"""

import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from attrs import frozen

__all__ = ["VolumePath", "VolumePathError", "parse_path", "quoted"]

_LONGEST_PATH: Final = 4096
_LONGEST_NAME: Final = 255
# A percent sign that does not begin an escape, or anything that a URL cannot contain.
_MALFORMED: Final = re.compile(r"%(?![0-9A-Fa-f]{2})|[^!-~]")


class VolumePathError(ValueError):
    """A path names no file of a volume; the message says why."""


@frozen
class VolumePath:
    """The names on the way to a file or directory; no names are the volume itself.

    Guarantees:
        No name is empty, "." or "..", and none contains a slash or NUL. `ends_with_slash` says whether the caller asked
        for a directory.
    """

    names: tuple[bytes, ...] = ()
    ends_with_slash: bool = True

    @property
    def url_path(self) -> str:
        """The path in canonical encoding, without a slash at its beginning."""
        ending = "/" if self.ends_with_slash and self.names else ""
        return "/".join(map(quoted, self.names)) + ending


def parse_path(raw: str) -> VolumePath:
    """Read the percent-encoded path below the volume, without a slash at its beginning.

    Raises:
        VolumePathError: it is malformed, or one of its names is.
    """
    if len(raw) > _LONGEST_PATH:
        raise VolumePathError(f"expected a path of at most {_LONGEST_PATH} characters, got {len(raw)}")
    if _MALFORMED.search(raw):
        raise VolumePathError("expected a percent-encoded path, got another character or a malformed escape")
    *parts, last = raw.split("/")
    names = [*parts, last] if last else parts
    return VolumePath(tuple(map(_name, names)), ends_with_slash=not last)


def quoted(name: bytes) -> str:
    """A name in the canonical encoding of a URL."""
    return quote_from_bytes(name, safe="")


def _name(part: str) -> bytes:
    name = unquote_to_bytes(part)
    if name in {b"", b".", b".."}:
        raise VolumePathError("expected names between the slashes, got an empty one, '.' or '..'")
    if b"/" in name or b"\0" in name:
        raise VolumePathError("expected names without encoded slashes and NUL")
    if len(name) > _LONGEST_NAME:
        raise VolumePathError(f"expected names of at most {_LONGEST_NAME} bytes, got {len(name)}")
    return name
