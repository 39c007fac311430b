"""Where the bench keeps what can be made again: the peers' environments and the Go program."""

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
    """The bench's part of this user's cache, which is there afterwards."""
    directory = assets.cache_directory(os.environ) / "bench"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@contextmanager
def exclusive(target: Path, progress: Progress) -> Iterator[None]:
    """Be the only one who makes `target`; whoever comes second waits and finds it made."""
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.step(f"another run is making {target.name}: waiting for it to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
