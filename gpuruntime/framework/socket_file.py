"""The file of a unix socket: its directory, its mode, and what a process that died left behind."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["SocketFile", "SocketFileError"]

# The sidecar runs as another user. It shares the group of the volume that the socket is in.
_UMASK: Final = 0o117
_LONGEST_PATH: Final = 107


class SocketFileError(Exception):
    """The socket cannot be made. The message names the path and the reason."""


class SocketFile:
    """A listening unix socket with mode 0660. A stale file is replaced; one that another process serves is not."""

    def __init__(self, path: Path) -> None:
        """Bind.

        Raises:
            SocketFileError: the path is too long, something else is there, or the directory cannot be written.
        """
        self.path = path
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise SocketFileError(
                f"{path}: expected a path of at most {_LONGEST_PATH} bytes, which is what Linux takes"
            )
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._remove_stale()
            self.socket = self._bound()
        except OSError as error:
            raise SocketFileError(f"{path}: the socket cannot be made: {error}") from error

    def close(self) -> None:
        """Close it, and remove the file unless another process serves it by now."""
        self.socket.close()
        # An inode would not show whose file it is: file systems use the number of a removed file again.
        with suppress(OSError, SocketFileError):
            self._remove_stale()

    def _bound(self) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(_UMASK)
        try:
            bound.bind(os.fspath(self.path))
            bound.listen(128)
        except OSError:
            bound.close()
            raise
        finally:
            os.umask(before)
        bound.setblocking(False)
        return bound

    def _remove_stale(self) -> None:
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise SocketFileError(
                f"{self.path}: expected no file or a socket that a dead process left, got another file"
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
            try:
                asked.connect(os.fspath(self.path))
            except ConnectionRefusedError:
                self.path.unlink()
                return
        raise SocketFileError(f"{self.path}: another process serves this socket: stop it, or choose another path")
