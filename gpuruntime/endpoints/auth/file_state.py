"""Detection of changed files by their metadata, without reading them."""

from pathlib import Path

__all__ = ["FileState", "file_state"]

FileState = tuple[int, int, int] | None


def file_state(path: Path) -> FileState:
    """Modification time, size and inode of a file; None while it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
