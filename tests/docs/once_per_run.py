"""Directories that the xdist workers of a run share."""

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["once_per_run"]


def once_per_run(factory: pytest.TempPathFactory, worker_id: str, name: str, make: Callable[[Path], None]) -> Path:
    """A directory that `make` has filled: the first worker that needs it calls `make`, the others wait for it."""
    base = factory.getbasetemp()
    directory = (base if worker_id == "master" else base.parent) / name
    with directory.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "complete").exists():
            directory.mkdir()
            make(directory)
            (directory / "complete").touch()
    return directory
