"""Lookup of a set of binaries.

In this order: the directory KUBEBUILDER_ASSETS if it has the set (the envtest convention; never for a real node),
the per-user cache, a build from the pinned Go modules into that cache.
"""

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from gpuruntime.testing.assets.binary_sets import CONTROL_PLANE, BinarySet
from gpuruntime.testing.assets.build import build
from gpuruntime.testing.progress import Progress

__all__ = ["cache_directory", "ensure", "locate", "missing"]


def ensure(environ: Mapping[str, str] | None = None, *, of: BinarySet = CONTROL_PLANE) -> Path:
    """Return the directory with all binaries; build them, with progress on standard error, if there is none.

    Raises:
        BuildError: the build failed; the message says what to do.
        ToolchainError: Go was not found and could not be installed.
    """
    environ = os.environ if environ is None else environ
    found = locate(environ, of=of)
    if found is not None:
        return found
    progress = Progress(sys.stderr)
    given = _given(environ, of)
    if given is not None:
        progress.step(f"{of.variable}={given} lacks {', '.join(missing(given, of=of))}: ignoring it")
    try:
        return build(of, cache_directory(environ), _cached(environ, of), progress)
    finally:
        progress.close()


def locate(environ: Mapping[str, str] | None = None, *, of: BinarySet = CONTROL_PLANE) -> Path | None:
    """The directory with all binaries, or None if they have yet to be built."""
    environ = os.environ if environ is None else environ
    given = _given(environ, of)
    for directory in ([given] if given else []) + [_cached(environ, of)]:
        if not missing(directory, of=of):
            return directory
    return None


def missing(directory: Path, *, of: BinarySet = CONTROL_PLANE) -> list[str]:
    """The binaries that `directory` lacks."""
    return [name for name in of.binaries if not os.access(directory / name, os.X_OK)]


def cache_directory(environ: Mapping[str, str]) -> Path:
    """The cache directory of this user, by the XDG convention."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpuruntime"


def _given(environ: Mapping[str, str], binaries: BinarySet) -> Path | None:
    value = environ.get(binaries.variable) if binaries.variable else None
    return Path(value) if value else None


def _cached(environ: Mapping[str, str], binaries: BinarySet) -> Path:
    """The cached build: its name has a hash of everything that determines the binaries."""
    machine = f"{platform.system()}-{platform.machine()}".lower()
    return cache_directory(environ) / f"{binaries.name}-{machine}-{binaries.digest()}"
