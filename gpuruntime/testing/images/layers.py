"""Layers of images: uncompressed tar archives that are a pure function of the files in them."""

import os
import posixpath
import stat
import tarfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from attrs import field, frozen

__all__ = ["Content", "Directory", "Entry", "File", "Files", "Layer", "Link", "layer", "tree"]

_PERMISSIONS = 0o7777
_WHITEOUT = ".wh."


@frozen
class File:
    """A regular file. A Path is read when the layer is written. `modified` is in seconds since 1970."""

    content: bytes | Path
    mode: int = field(default=0o644)
    modified: int = 0


@frozen
class Link:
    """A symbolic link; `target` is written as it is."""

    target: str


@frozen
class Directory:
    """A directory, which may be empty. Directories above a file need none."""

    mode: int = field(default=0o755)


Entry = File | Link | Directory
Content = Entry | str | bytes | Path
Files = Mapping[str, Content]
"""What is in a layer by absolute path.

A text or bytes are a file with mode 644. A Path is a copy of what is there: a file, with mode 755 if its owner may
execute it, else 644, or a directory with all that is in it.
"""


@frozen
class Layer:
    """The entries of a layer by absolute path, sorted."""

    entries: tuple[tuple[str, Entry], ...]

    def write_to(self, archive: BinaryIO) -> None:
        """Write the archive. Equal entries give equal bytes: all belongs to root and, unless said, is from 1970."""
        # GNU's format has file names as they are: any bytes, of any length.
        with tarfile.open(
            fileobj=archive, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for path, entry in self.entries:
                _add(tar, path.removeprefix("/"), entry)

    def to_bytes(self) -> bytes:
        """The archive in memory, for small layers."""
        archive = BytesIO()
        self.write_to(archive)
        return archive.getvalue()


def layer(files: Files) -> Layer:
    """A layer with these files.

    Raises:
        ValueError: a path is not absolute and normal, has a name that the format reserves, or is below a file.
    """
    entries: dict[str, Entry] = {}
    for path, content in files.items():
        for found, entry in _entries(path, content):
            _check(found)
            entries[found] = entry
    for path in entries:
        above = posixpath.dirname(path)
        while above != "/":
            if isinstance(entries.get(above, Directory()), File | Link):
                raise ValueError(  # noqa: TRY004 - the value is wrong, not its type
                    f"files: {path} is below {above}, which is no directory: give one of them another path"
                )
            above = posixpath.dirname(above)
    return Layer(tuple(sorted(entries.items(), key=lambda item: item[0].split("/"))))


def tree(directory: Path, target: str, *, without: frozenset[str] = frozenset()) -> dict[str, Entry]:
    """The files of a directory on disk by their path below `target`, with links as links and times as they are.

    The times keep compiled Python modules valid. Files and directories whose name is in `without` are left out.
    """
    found: dict[str, Entry] = {}
    for top, folders, names in os.walk(directory):
        folders[:] = sorted(set(folders) - without)
        below = posixpath.normpath(posixpath.join(target, os.path.relpath(top, directory)))
        found[below] = Directory()
        for name in sorted({*names, *(folder for folder in folders if (Path(top) / folder).is_symlink())} - without):
            path = Path(top) / name
            if path.is_symlink():
                found[posixpath.join(below, name)] = Link(str(path.readlink()))
            elif path.is_file():
                modified = int(path.stat().st_mtime)
                found[posixpath.join(below, name)] = File(path, _mode(path), modified)
    found.pop("/", None)
    return found


def _entries(path: str, content: Content) -> Iterator[tuple[str, Entry]]:
    match content:
        case str():
            yield path, File(content.encode())
        case bytes():
            yield path, File(content)
        case Path() if content.is_dir():
            for below, entry in tree(content, path).items():
                yield below, File(entry.content, entry.mode) if isinstance(entry, File) else entry
        case Path():
            yield path, File(content, _mode(content))
        case _:
            yield path, content


def _mode(path: Path) -> int:
    return 0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644


def _check(path: str) -> None:
    if not path.startswith("/") or path == "/" or "\0" in path or posixpath.normpath(f"/{path.lstrip('/')}") != path:
        raise ValueError(f"files: {path!r}: expected a path that begins with one / and has no . or .. or empty part")
    if any(part.startswith(_WHITEOUT) for part in path.split("/")):
        raise ValueError(f"files: {path!r}: names that begin with {_WHITEOUT} mean a deletion in a layer; use another")


def _add(tar: tarfile.TarFile, name: str, entry: Entry) -> None:
    member = tarfile.TarInfo(name)
    match entry:
        case Directory(mode):
            member.type, member.mode = tarfile.DIRTYPE, mode & _PERMISSIONS
            tar.addfile(member)
        case Link(target):
            member.type, member.mode, member.linkname = tarfile.SYMTYPE, 0o777, target
            tar.addfile(member)
        case File(content, mode, modified):
            member.mode, member.mtime = mode & _PERMISSIONS, modified
            if isinstance(content, bytes):
                member.size = len(content)
                tar.addfile(member, BytesIO(content))
            else:
                with content.open("rb") as source:
                    member.size = os.fstat(source.fileno()).st_size
                    tar.addfile(member, source)
