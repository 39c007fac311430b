"""The cache of the bench: the environments of the peers and the Go program."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuruntime.testing import assets
from gpuruntime.testing.progress import Progress

__all__ = ["SetUpError", "bench_cache", "exclusive"]


class SetUpError(Exception):
    """A contender cannot be set up; the message says what to do."""


def bench_cache() -> Path:
    """The directory of the bench in the user's cache; it is created if it does not exist."""
    directory = assets.cache_directory(os.environ) / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def exclusive(target: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock of `target`; a second process waits until the first has created it."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step(f"another run creates {target.name}: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
