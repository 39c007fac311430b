"""Base images that are made from the programs of this machine: `busybox` and `python`."""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.testing.images.layers import Content, Directory, File, Files, Link, tree

__all__ = ["BASES", "BaseImage", "MissingProgramError", "busybox", "python", "shared_libraries"]

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LIBRARY: Final = re.compile(r"(?:(?P<name>\S+) => )?(?P<path>/\S+) \(0x[0-9a-f]+\)")
# Where a dynamic linker without a cache looks, on any architecture.
_LIBRARIES: Final = "/usr/lib"
_LEFT_OUT: Final = frozenset(
    {"site-packages", "test", "tests", "idlelib", "lib2to3", "ensurepip", "turtledemo", "tkinter"}
)
# For `python -O`, and for tkinter.
_UNUSED: Final = re.compile(r"\.opt-[12]\.pyc$|/_tkinter\.[^/]+$")


class MissingProgramError(Exception):
    """A program of this machine that the image is made of is not installed; the message says how to install it."""


@frozen
class BaseImage:
    """The files and settings of a base image."""

    files: Files
    environment: Mapping[str, str] = field(factory=dict)
    command: tuple[str, ...] = ()


def busybox() -> BaseImage:
    """A shell and 300 small programs: busybox with its links, `/tmp`, and the users root and nobody.

    Raises:
        MissingProgramError: there is no busybox, or it is not linked statically.
    """
    program = shutil.which("busybox", path="/bin:/usr/bin:/usr/local/bin")
    if program is None or shared_libraries([Path(program)]):
        raise MissingProgramError(
            "the image `busybox` is made from this machine's busybox, linked statically: install it with"
            " `apt-get install busybox-static`"
        )
    links = _output([program, "--list"]).split()
    files: dict[str, Content] = {f"/bin/{name}": Link("busybox") for name in links}
    files |= {
        "/bin/busybox": File(Path(program), 0o755),
        "/usr/bin/env": Link("/bin/busybox"),
        "/tmp": Directory(0o1777),  # noqa: S108 - a directory of the image
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "/etc/group": "root:x:0:\nnobody:x:65534:\n",
    }
    return BaseImage(files, {"PATH": _PATH}, ("sh",))


def python() -> BaseImage:
    """This interpreter with its standard library and the shared libraries that both need, on top of `busybox`'s files.

    It is `/usr/local/bin/python3`. Not in it: pip, site-packages, tkinter, and the tests of the standard library.

    Raises:
        MissingProgramError: there is no busybox, or no `ldd`.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    # Of the interpreter itself; the paths of a virtual environment are others.
    original = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix, "installed_base": sys.base_prefix}
    standard = Path(sysconfig.get_path("stdlib", vars=original))
    program = Path(sys.base_exec_prefix) / "bin" / f"python{version}"
    library = tree(standard, f"/usr/local/lib/python{version}", without=_LEFT_OUT | {_for_linking()})
    modules = {path: entry for path, entry in library.items() if not _UNUSED.search(path)}
    extensions = [entry.content for entry in modules.values() if isinstance(entry, File) and _is_extension(entry)]
    found = shared_libraries([program, *(path for path in extensions if isinstance(path, Path))])
    files: dict[str, Content] = {
        **busybox().files,
        **modules,
        f"/usr/local/bin/python{version}": File(program, 0o755),
        "/usr/local/bin/python3": Link(f"python{version}"),
        "/usr/local/bin/python": Link("python3"),
        **_placed(found),
    }
    return BaseImage(files, {"PATH": _PATH, "LANG": "C.UTF-8"}, ("python3",))


BASES: Final[Mapping[str, Callable[[], BaseImage]]] = {"busybox": busybox, "python": python}
"""The base images by name; each takes its files from this machine when it is made."""


def shared_libraries(programs: Iterable[Path]) -> dict[str, Path]:
    """The libraries that programs and extension modules need, by name; the dynamic linker by its absolute path.

    Raises:
        MissingProgramError: there is no `ldd`.
    """
    if shutil.which("ldd") is None:
        raise MissingProgramError("images with shared libraries need the program `ldd`, which glibc has")
    output = _output(["ldd", *map(str, programs)])
    return {match["name"] or match["path"]: Path(match["path"]) for match in _LIBRARY.finditer(output)}


def _placed(libraries: Mapping[str, Path]) -> dict[str, Content]:
    return {
        name if name.startswith("/") else f"{_LIBRARIES}/{name}": File(path.resolve(), 0o755)
        for name, path in libraries.items()
    }


def _for_linking() -> str:
    """The directory with the static library of the interpreter, which is half of the standard library's bytes."""
    return Path(sysconfig.get_config_var("LIBPL") or "config").name


def _is_extension(entry: File) -> bool:
    return isinstance(entry.content, Path) and entry.content.suffix == ".so"


def _output(command: list[str]) -> str:
    # ldd fails for a program without libraries, which is an answer, too.
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
