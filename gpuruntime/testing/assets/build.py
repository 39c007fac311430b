"""Build of a set of binaries from pinned Go modules, once per machine and user.

Guarantees:
    - The result is moved into place atomically: an interruption leaves no broken cache.
    - Of two concurrent builds the second waits for the first and uses its result.
    - An interrupted build resumes where it stopped, because Go's cache keeps compiled packages.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import as_file
from pathlib import Path

from attrs import evolve

from gpuruntime.testing.assets.binary_sets import BinarySet, GoModule
from gpuruntime.testing.assets.go_toolchain import Go, find_go
from gpuruntime.testing.progress import Progress

__all__ = ["BuildError", "build"]

_NEEDED_GIB = 6
_ERROR_LINES = 3
_SOURCES = ("*.mod", "*.sum", "*.go")


class BuildError(Exception):
    """The binaries could not be built; the message says what to do."""


def build(binaries: BinarySet, cache: Path, target: Path, progress: Progress) -> Path:
    """Build all binaries of the set into `target`, a directory below `cache`; returns at once if another process did.

    Raises:
        BuildError: not enough disk space, or Go failed.
        ToolchainError: Go was not found and could not be installed.
    """
    cache.mkdir(parents=True, exist_ok=True)
    waiting = partial(progress.step, "another build is running: waiting for it to end")
    with _exclusive(cache / "build.lock", waiting) as lock:
        if target.exists():
            return target
        for leftover in cache.glob(".build-*"):  # of a killed build: we hold the lock, so it is not in use
            shutil.rmtree(leftover)
        free = shutil.disk_usage(cache).free / 2**30
        if free < _NEEDED_GIB:
            raise BuildError(
                f"{cache} has {free:.1f} GiB free, building {binaries.title} needs {_NEEDED_GIB}: free some space,"
                " or set XDG_CACHE_HOME to a directory on a larger disk"
            )
        with tempfile.TemporaryDirectory(dir=cache, prefix=".build-") as draft:
            found = find_go(max(module.pinned("go") for module in binaries.modules), cache, progress)
            go = evolve(found, inherited=(lock,))
            progress.step(f"building {binaries.title} from source, once; about {binaries.minutes} minutes on two cores")
            for number, module in enumerate(binaries.modules):
                work = Path(draft) / f"module-{number}"
                _copy_sources(module, work)
                _build_module(go, module, work, Path(draft) / "bin", progress, binaries.binaries)
            (Path(draft) / "bin").rename(target)
            for directory in go.private:  # gigabytes that only this build needed
                shutil.rmtree(directory, ignore_errors=True)
    progress.step(f"{binaries.title}: built in {target}")
    return target


def _copy_sources(module: GoModule, work: Path) -> None:
    """Copy a module to a writable directory, which Go requires."""
    with as_file(module.directory) as installed:
        for source in (path for pattern in _SOURCES for path in installed.rglob(pattern)):
            copy = work / source.relative_to(installed)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)


def _build_module(
    go: Go, module: GoModule, work: Path, output: Path, progress: Progress, names: tuple[str, ...]
) -> None:
    downloaded = 0

    def on_download(line: str) -> None:
        nonlocal downloaded
        if line.startswith("go: downloading"):
            downloaded += 1
            progress.advance("downloading modules", downloaded, len(modules))

    modules = {line.split()[0] for line in (work / "go.sum").read_text().splitlines() if "/go.mod " not in line}
    options = [f"-tags={','.join(module.tags)}"] if module.tags else []
    packages = {
        name: set(_go(go, work, ["list", *options, "-deps", package], on_download))
        for name, package in module.binaries.items()
    }
    everything = set().union(*packages.values())
    compiled: set[str] = set()
    for name, package in module.binaries.items():
        progress.step(f"[{names.index(name) + 1}/{len(names)}] {name}")

        def on_compile(line: str, name: str = name, compiled: set[str] = compiled) -> None:
            compiled.add(line)
            progress.advance(f"compiling {name}, packages", len(compiled & everything), len(everything))

        arguments = [
            "build",
            "-v",
            "-trimpath",
            *options,
            f"-ldflags={module.linker_flags()}",
            "-o",
            str(output / name),
            package,
        ]
        _go(go, work, arguments, on_compile)
        compiled.update(packages[name])


def _go(go: Go, work: Path, arguments: list[str], on_line: Callable[[str], None]) -> list[str]:
    """Run Go, passing every line of its standard error to `on_line`; returns the words of its standard output."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        **go.environment,
    }
    lines: list[str] = []
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [go.command, *arguments],
            cwd=work,
            env=environment,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a process group, so that the compilers can be killed together with Go
            pass_fds=go.inherited,  # Go holds the lock as well: if we are killed, the next build waits for Go to end
        )
        try:
            assert process.stderr is not None  # noqa: S101 - Popen was given a pipe
            for line in process.stderr:
                lines.append(line.rstrip())
                on_line(lines[-1])
            code = process.wait()
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        finally:
            if process.stderr is not None:
                process.stderr.close()
        if code != 0:
            raise BuildError(
                f"go {arguments[0]} {arguments[-1]} failed: {' / '.join(lines[-_ERROR_LINES:])}. If a module could not"
                " be fetched, check that Go reaches its proxy (go env GOPROXY) and retry: compiled packages are kept"
            )
        output.seek(0)
        return output.read().split()


@contextmanager
def _exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[int]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
