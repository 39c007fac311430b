"""Build of the control plane's binaries from pinned Go modules, once per machine and user.

Guarantees:
    - The result is moved into place atomically: an interruption leaves no broken cache.
    - Of two concurrent builds the second waits for the first and uses its result.
    - An interrupted build resumes where it stopped, because Go's cache keeps compiled packages.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path

from attrs import evolve

from gpuruntime.testing.assets.go_toolchain import Go, find_go
from gpuruntime.testing.progress import Progress

__all__ = ["BINARIES", "BuildError", "build", "recipe"]

BINARIES: Mapping[str, str] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
_NEEDED_GIB = 6
_ERROR_LINES = 3


class BuildError(Exception):
    """The binaries could not be built; the message says what to do."""


def recipe() -> str:
    """The linker flags, which together with the module versions determine the binaries."""
    module = (files("gpuruntime.testing") / "controlplane" / "go.mod").read_text()
    kubernetes = _pinned(module, r"k8s\.io/kubernetes")
    kwok = _pinned(module, r"sigs\.k8s\.io/kwok")
    major, minor = kubernetes.removeprefix("v").split(".")[:2]
    stamps = {
        # Clients and kubectl parse the server's version, and fail on the placeholder of a build without version stamps.
        "k8s.io/component-base/version.gitVersion": kubernetes,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/component-base/version.gitTreeState": "clean",
        "k8s.io/component-base/version.gitCommit": "unknown",
        "k8s.io/client-go/pkg/version.gitVersion": kubernetes,
        "k8s.io/client-go/pkg/version.gitCommit": "unknown",
        "sigs.k8s.io/kwok/pkg/consts.Version": kwok,
    }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in stamps.items())])


def build(cache: Path, target: Path, progress: Progress) -> Path:
    """Build all binaries into `target`, a directory below `cache`; returns at once if another process just did.

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
                f"{cache} has {free:.1f} GiB free, building Kubernetes needs {_NEEDED_GIB}: free some space,"
                " or set XDG_CACHE_HOME to a directory on a larger disk"
            )
        with tempfile.TemporaryDirectory(dir=cache, prefix=".build-") as draft, _module() as module:
            found = find_go(_pinned((module / "go.mod").read_text(), "go"), cache, progress)
            go = evolve(found, inherited=(lock,))
            _build_all(go, module, Path(draft), progress)
            (Path(draft) / "bin").rename(target)
            for directory in go.private:  # gigabytes that only this build needed
                shutil.rmtree(directory, ignore_errors=True)
    progress.step(f"the control plane is built: {target}")
    return target


def _build_all(go: Go, module: Path, draft: Path, progress: Progress) -> None:
    work = draft / "module"
    work.mkdir()
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(module / name, work / name)  # Go requires a writable module directory
    progress.step("building the Kubernetes control plane from source, once; about ten minutes on two cores")
    downloaded = 0

    def on_download(line: str) -> None:
        nonlocal downloaded
        if line.startswith("go: downloading"):
            downloaded += 1
            progress.advance("downloading modules", downloaded, len(modules))

    modules = {line.split()[0] for line in (work / "go.sum").read_text().splitlines() if "/go.mod " not in line}
    packages = {name: set(_go(go, work, ["list", "-deps", package], on_download)) for name, package in BINARIES.items()}
    everything = set().union(*packages.values())
    compiled: set[str] = set()
    for number, (name, package) in enumerate(BINARIES.items(), 1):
        progress.step(f"[{number}/{len(BINARIES)}] {name}")

        def on_compile(line: str, name: str = name, compiled: set[str] = compiled) -> None:
            compiled.add(line)
            progress.advance(f"compiling {name}, packages", len(compiled & everything), len(everything))

        arguments = [
            "build",
            "-v",
            "-trimpath",
            f"-ldflags={recipe()}",
            "-o",
            str(draft / "bin" / name),
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
def _module() -> Iterator[Path]:
    with as_file(files("gpuruntime.testing") / "controlplane") as module:
        yield module


@contextmanager
def _exclusive(path: Path, on_wait: Callable[[], None]) -> Iterator[int]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def _pinned(module: str, name: str) -> str:
    match = re.search(rf"^\s*{name} (\S+)$", module, re.MULTILINE)
    if match is None:
        raise BuildError(f"go.mod does not pin {name}")
    return match.group(1)
