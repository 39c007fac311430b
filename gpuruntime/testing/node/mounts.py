"""The mounted file systems, as /proc/self/mountinfo lists them."""

import re
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

__all__ = ["Mount", "file_system_of", "mounts"]

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@frozen
class Mount:
    """A mounted file system: where it is, its kind, such as `ext4`, and its own options."""

    path: Path
    kind: str
    options: frozenset[str] = frozenset()


def mounts(mountinfo: str | None = None) -> tuple[Mount, ...]:
    """The mounts of this process, or of a given text, in the order in which they were made."""
    found = []
    for line in (_MOUNTS.read_text() if mountinfo is None else mountinfo).splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")
        path = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), before.split(" ")[4])
        found.append(Mount(Path(path), kind, frozenset(options.split(","))))
    return tuple(found)


def file_system_of(path: Path, mounted: Iterable[Mount]) -> str:
    """The kind of the file system that holds an absolute path without links; a later mount covers an earlier one."""
    holder = Mount(Path("/"), "unknown")
    for mount in mounted:
        if path.is_relative_to(mount.path) and len(mount.path.parts) >= len(holder.path.parts):
            holder = mount
    return holder.kind
