"""What tells that a file was changed, without reading it."""

from pathlib import Path

__all__ = ["FileState", "file_state"]

FileState = tuple[int, int, int] | None


def file_state(path: Path) -> FileState:
    """Something that differs when the file does; None while it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
