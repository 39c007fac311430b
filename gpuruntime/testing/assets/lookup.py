"""The programs of the control plane: where they are, and how they come to be there.

In this order: the directory KUBEBUILDER_ASSETS if it is complete (the envtest convention), the per-user cache, a build
from the pinned Go modules into that cache.
"""

import hashlib
import os
import platform
import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from gpuruntime.testing.assets.build import BINARIES, build, recipe
from gpuruntime.testing.progress import Progress

__all__ = ["cache_directory", "ensure", "locate", "missing"]


def ensure(environ: Mapping[str, str] | None = None) -> Path:
    """The directory with all programs; builds them, with progress on standard error, if there is none.

    Raises:
        BuildError: they could not be built; the message says what to do.
        ToolchainError: there is no Go, and none could be installed.
    """
    environ = os.environ if environ is None else environ
    found = locate(environ)
    if found is not None:
        return found
    progress = Progress(sys.stderr)
    given = environ.get("KUBEBUILDER_ASSETS")
    if given:
        progress.step(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(missing(Path(given)))}: using our own programs")
    try:
        return build(cache_directory(environ), _cached(environ), progress)
    finally:
        progress.close()


def locate(environ: Mapping[str, str] | None = None) -> Path | None:
    """The directory with all programs if there is one already."""
    environ = os.environ if environ is None else environ
    given = environ.get("KUBEBUILDER_ASSETS")
    for directory in ([Path(given)] if given else []) + [_cached(environ)]:
        if not missing(directory):
            return directory
    return None


def missing(directory: Path) -> list[str]:
    """Which programs `directory` lacks."""
    return [name for name in BINARIES if not os.access(directory / name, os.X_OK)]


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where this user keeps what can be made again."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpuruntime"


def _cached(environ: Mapping[str, str]) -> Path:
    """A directory named after everything that decides what is in it."""
    module = files("gpuruntime.testing") / "controlplane"
    digest = hashlib.sha256(recipe().encode())
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    machine = f"{platform.system()}-{platform.machine()}".lower()
    return cache_directory(environ) / f"controlplane-{machine}-{digest.hexdigest()[:12]}"
