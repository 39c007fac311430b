"""Noticing that events differ in nothing but their notes, too many of them to be read one by one."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from gpuruntime.control.lru import LRU

__all__ = ["SimilarNotes", "combined"]

# kubectl and people know this text from client-go.
_PREFIX: Final = "(combined from similar events): "
_MEMORY: Final = 4096


def combined(note: str) -> str:
    """The note of an event that stands for many, of which this is the newest."""
    return _PREFIX + note


class SimilarNotes:
    """The notes that were lately seen on events that are alike otherwise.

    Caveats:
        4096 groups are remembered; one that so many others have overtaken starts afresh.
    """

    def __init__(self, *, limit: int = 10, window_seconds: float = 600.0, memory: int = _MEMORY) -> None:
        self._limit = limit
        self._window_seconds = window_seconds
        self._groups: LRU[Hashable, OrderedDict[int, float]] = LRU(memory)

    def __len__(self) -> int:
        return len(self._groups)

    def is_crowded(self, group: Hashable, note: str, now: float) -> bool:
        """Remember a note of a group: whether the group had more than `limit` different ones within the window."""
        seen = self._groups.get(group)
        if seen is None:
            seen = OrderedDict()
            self._groups.put(group, seen)
        # Hashes, because notes are long. One more than the limit is enough to know, if it is the latest that stay.
        fingerprint = hash(note)
        seen[fingerprint] = now
        seen.move_to_end(fingerprint)
        while len(seen) > self._limit + 1 or now - next(iter(seen.values())) > self._window_seconds:
            seen.popitem(last=False)
        return len(seen) > self._limit
