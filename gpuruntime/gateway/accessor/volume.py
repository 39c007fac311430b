"""Opening files of a volume without leaving it, whatever its links say, and also if links are swapped meanwhile.

The kernel resolves a path beneath the directory (openat2 with RESOLVE_BENEATH): a link that leads out is refused, also
when it is put in place during the resolution. Where the kernel or the container runtime has no openat2, the path is
walked name by name, and no link is followed at all.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from attrs import frozen

__all__ = ["NoSuchFileError", "Opened", "RefusedFileError", "Volume"]

_OPENAT2: Final = 437
_NO_MAGIC_LINKS: Final = 0x02
_BENEATH: Final = 0x08
# A rename anywhere on the way makes the kernel give up and ask for another attempt.
_ATTEMPTS: Final = 64
_PATH_ONLY: Final = os.O_PATH | os.O_CLOEXEC
_MISSING: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_LEAD_UP: Final = frozenset({b"", b".", b".."})
_LEADS_OUT: Final = frozenset({errno.EXDEV, errno.ELOOP})


class NoSuchFileError(Exception):
    """There is no file of this path in the volume."""


class RefusedFileError(Exception):
    """The path leads out of the volume, or to what is neither a file nor a directory, or cannot be read."""


@frozen
class Opened:
    """An open file or directory, closed at the end of a `with` block."""

    fd: int
    stat: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


class Volume:
    """A directory whose files are opened read-only.

    Guarantees:
        Nothing outside of the directory is opened. Devices, pipes and sockets are never opened, not even for a moment:
        a path is resolved without opening it first.
    """

    def __init__(self, root: Path, *, openat2: bool = True) -> None:
        """Open the directory. `openat2` False walks every path name by name.

        Raises:
            OSError: it is no directory, or cannot be read.
        """
        self._root = os.open(root, _PATH_ONLY | os.O_DIRECTORY)
        self._has_openat2 = openat2 and _has_openat2(self._root)

    def close(self) -> None:
        os.close(self._root)

    def open(self, names: Sequence[bytes]) -> Opened:
        """Open the file or directory at a path. The names are those of a `VolumePath`.

        Raises:
            NoSuchFileError: there is none.
            RefusedFileError: it must not or cannot be read.
        """
        if any(name in _LEAD_UP or b"/" in name for name in names):
            raise RefusedFileError("the path leads out of the volume")
        try:
            handle = self._resolve(names)
        except OSError as error:
            raise _as_refusal(error) from error
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
                raise RefusedFileError("it is neither a file nor a directory")
            # The very inode that was resolved and checked, whatever has its name by now.
            fd = os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError as error:
            raise _as_refusal(error) from error
        finally:
            os.close(handle)
        return Opened(fd, os.fstat(fd))

    def _resolve(self, names: Sequence[bytes]) -> int:
        """A descriptor that only identifies the file."""
        if self._has_openat2:
            return _openat2(self._root, b"/".join(names) or b".")
        current = os.open(".", _PATH_ONLY | os.O_DIRECTORY, dir_fd=self._root)
        for position, name in enumerate(names, start=1):
            directory = os.O_DIRECTORY if position < len(names) else 0
            try:
                # With O_PATH a link is opened itself, which is neither a file nor a directory.
                found = os.open(name, _PATH_ONLY | os.O_NOFOLLOW | directory, dir_fd=current)
            finally:
                os.close(current)
            current = found
        return current


def _as_refusal(error: OSError) -> Exception:
    if error.errno in _MISSING:
        return NoSuchFileError("there is no such file")
    if error.errno in _LEADS_OUT:
        return RefusedFileError("a link leads out of the volume, or in a circle")
    if error.errno == errno.EACCES:
        return RefusedFileError("the accessor may not read it: make it readable by all users")
    return error


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def _openat2(directory: int, path: bytes) -> int:
    how = _OpenHow(_PATH_ONLY, 0, _BENEATH | _NO_MAGIC_LINKS)
    for _ in range(_ATTEMPTS):
        fd = _LIBC.syscall(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(directory),
            ctypes.c_char_p(path),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
        if fd >= 0:
            return int(fd)
        code = ctypes.get_errno()
        if code != errno.EAGAIN:
            raise OSError(code, os.strerror(code))
    raise OSError(errno.ELOOP, "the directories on the way keep changing")


def _has_openat2(directory: int) -> bool:
    try:
        os.close(_openat2(directory, b"."))
    except OSError:
        return False
    return True
