"""Lookup of the control plane's binaries.

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
    """Return the directory with all binaries; build them, with progress on standard error, if there is none.

    Raises:
        BuildError: the build failed; the message says what to do.
        ToolchainError: Go was not found and could not be installed.
    """
    environ = os.environ if environ is None else environ
    found = locate(environ)
    if found is not None:
        return found
    progress = Progress(sys.stderr)
    given = environ.get("KUBEBUILDER_ASSETS")
    if given:
        progress.step(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(missing(Path(given)))}: ignoring it")
    try:
        return build(cache_directory(environ), _cached(environ), progress)
    finally:
        progress.close()


def locate(environ: Mapping[str, str] | None = None) -> Path | None:
    """The directory with all binaries, or None if they have yet to be built."""
    environ = os.environ if environ is None else environ
    given = environ.get("KUBEBUILDER_ASSETS")
    for directory in ([Path(given)] if given else []) + [_cached(environ)]:
        if not missing(directory):
            return directory
    return None


def missing(directory: Path) -> list[str]:
    """The binaries that `directory` lacks."""
    return [name for name in BINARIES if not os.access(directory / name, os.X_OK)]


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The cache directory of this user, by the XDG convention."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpuruntime"


def _cached(environ: Mapping[str, str]) -> Path:
    """The cached build: its name is a hash of everything that determines the binaries."""
    module = files("gpuruntime.testing") / "controlplane"
    digest = hashlib.sha256(recipe().encode())
    for name in ("go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    machine = f"{platform.system()}-{platform.machine()}".lower()
    return cache_directory(environ) / f"controlplane-{machine}-{digest.hexdigest()[:12]}"
