"""The Go contender, built once from its pinned modules."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from gpuruntime.testing.assets.go_toolchain import Go, ToolchainError, find_go
from gpuruntime.testing.progress import Progress
from hack.benchmarks.cache import SetUpError, exclusive

__all__ = ["controller_runtime_version", "go_program"]

_MODULE = Path(__file__).resolve().parent / "go"
_INPUTS = tuple(sorted(path.name for path in _MODULE.iterdir() if path.suffix in {".go", ".mod", ".sum"}))


def go_program(cache: Path, progress: Progress) -> Path:
    """The path of the program in `cache`; it is built first if it is missing, and appears atomically.

    Raises:
        SetUpError: there is no Go toolchain, or the build failed.
    """
    digest = hashlib.sha256(b"".join((_MODULE / name).read_bytes() for name in _INPUTS)).hexdigest()
    target = cache / f"controller-runtime-{digest[:12]}"
    if target.exists():
        return target
    with exclusive(target, progress):
        if not target.exists():
            try:
                _build(find_go(_pinned("go"), cache.parent, progress), target, progress)
            except ToolchainError as error:
                raise SetUpError(str(error)) from error
    return target


def controller_runtime_version() -> str:
    return _pinned(r"sigs\.k8s\.io/controller-runtime")


def _build(go: Go, target: Path, progress: Progress) -> None:
    progress.step("building the Go contender, once; about three minutes on two cold cores")
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        **go.environment,
    }
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as draft:
        for name in _INPUTS:
            shutil.copyfile(_MODULE / name, Path(draft, name))  # Go requires a writable directory
        command = [go.command, "build", "-trimpath", "-ldflags=-s -w", "-o", "program", "."]
        done = subprocess.run(command, cwd=draft, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            words = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise SetUpError(
                f"go build failed: {' / '.join(words[-3:])}. If a module could not be fetched, check that Go reaches"
                " its proxy (go env GOPROXY) and run again: what was compiled is kept"
            )
        Path(draft, "program").rename(target)
    for directory in go.private:  # gigabytes that are not needed afterwards
        shutil.rmtree(directory, ignore_errors=True)


def _pinned(name: str) -> str:
    match = re.search(rf"^\s*{name} (\S+)$", (_MODULE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise SetUpError(f"hack/benchmarks/go/go.mod does not pin {name}: add it")
    return match.group(1)
