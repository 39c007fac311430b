"""Keeping the garbage collector from walking objects again and again that are all going to stay."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collect_rarely", "relaxed_collector"]

_THRESHOLD = 50_000
_RARELY = (20, 50)


class _Relaxation:
    """How many blocks are open, and what to go back to when the last one ends."""

    def __init__(self) -> None:
        self.depth = 0
        self.before = (0, 0, 0)


_relaxation = _Relaxation()


@contextmanager
def relaxed_collector() -> Iterator[None]:
    """Collect less often inside the block, so that a load of new objects is not walked again and again.

    The collector belongs to the whole process: blocks may overlap, and the last to end restores what the first found.
    A process that switched the collector off, or chose a higher threshold, is left alone.
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
    """For a process that is nothing but a controller: collect rarely from now on.

    What its caches hold stays and has no cycles, but the collector walks it again and again: that is a sixth of the
    CPU of a controller at work. A process that switched the collector off, or chose a higher threshold, is left alone.
    """
    youngest, *_ = gc.get_threshold()
    if 0 < youngest < _THRESHOLD:
        gc.set_threshold(_THRESHOLD, *_RARELY)
