"""Spectral, a linter of OpenAPI documents, on our OpenAPI document.

npm installs it in the user's cache, pinned by hack/generators/spectral/package-lock.json; the checkout stays clean.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from gpuruntime.testing.assets.lookup import cache_directory

__all__ = ["RULES", "SpectralError", "lint"]

_HOME: Final = Path(__file__).resolve().parent / "spectral"
_PINS: Final = ("package.json", "package-lock.json", ".npmrc")
RULES: Final = _HOME / "ruleset.yaml"


class SpectralError(Exception):
    """Spectral cannot be installed, or failed; the message has the cause."""


def lint(document: Path) -> str:
    """The findings of Spectral in a document, hints included; "" if there are none.

    Raises:
        SpectralError: it cannot run.
    """
    program = _installed() / "node_modules" / ".bin" / "spectral"
    options = ("--ruleset", str(RULES), "--fail-severity", "hint", "--quiet")
    done = subprocess.run([str(program), "lint", str(document), *options], capture_output=True, text=True, check=False)
    if done.returncode not in {0, 1}:
        raise SpectralError(f"spectral failed (exit code {done.returncode}): {done.stdout}{done.stderr}")
    return done.stdout if done.returncode == 1 else ""


def _installed() -> Path:
    """The directory of Spectral, named after a hash of its lock file and configuration."""
    digest = hashlib.sha256(b"".join((_HOME / name).read_bytes() for name in _PINS))
    cache = cache_directory(os.environ)
    target = cache / f"spectral-{digest.hexdigest()[:12]}"
    if target.exists():
        return target
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "spectral.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _install(cache, target)
    return target


def _install(cache: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=cache, prefix=".spectral-") as draft:
        for name in _PINS:
            shutil.copyfile(_HOME / name, Path(draft) / name)
        try:
            done = subprocess.run(["npm", "ci"], cwd=draft, capture_output=True, text=True, check=False)
        except OSError as error:
            raise SpectralError(f"npm cannot be run ({error}): install Node.js") from error
        if done.returncode != 0:
            raise SpectralError(f"npm ci failed, check that npm reaches its registry: {done.stderr[-1000:]}")
        # Atomic: an interrupted installation is never used.
        (Path(draft) / "complete").mkdir()
        (Path(draft) / "node_modules").rename(Path(draft) / "complete" / "node_modules")
        (Path(draft) / "complete").rename(target)
