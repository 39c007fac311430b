"""Garbage collector thresholds for processes with many long-lived objects."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collect_rarely", "relaxed_collector"]

_THRESHOLD = 50_000
_RARELY = (20, 50)


class _Relaxation:
    """The number of open blocks, and the thresholds to restore when the last one ends."""

    def __init__(self) -> None:
        self.depth = 0
        self.before = (0, 0, 0)


_relaxation = _Relaxation()


@contextmanager
def relaxed_collector() -> Iterator[None]:
    """Collect less often inside the block, so that a bulk of new objects is not traversed repeatedly.

    The setting is process-wide: blocks may overlap, and the last one to end restores the thresholds that the first one
    found. A disabled collector or a higher threshold is not changed.
    """
    if _relaxation.depth == 0:
        _relaxation.before = gc.get_threshold()
        youngest, *older = _relaxation.before
        if 0 < youngest < _THRESHOLD:
            gc.set_threshold(_THRESHOLD, *older)
    _relaxation.depth += 1
    try:
        yield
    finally:
        _relaxation.depth -= 1
        if _relaxation.depth == 0:
            gc.set_threshold(*_relaxation.before)


def collect_rarely() -> None:
    """Collect rarely from now on, for a process that only runs controllers.

    Cached objects are long-lived and have no cycles, but the collector traverses them repeatedly, which costs a sixth
    of a busy controller's CPU time. A disabled collector or a higher threshold is not changed.
    """
    youngest, *_ = gc.get_threshold()
    if 0 < youngest < _THRESHOLD:
        gc.set_threshold(_THRESHOLD, *_RARELY)
