"""A heap with removal and re-insertion of members, without searching it."""

from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

__all__ = ["HeapMember", "RevisableHeap"]

# Below this many stale entries a rebuild does not pay off.
_TOLERATED = 64


class HeapMember:
    """A possible member of one heap at a time. Initialise `entry` to None; only the heap changes it."""

    __slots__ = ("entry",)

    entry: tuple[float, int, Any] | None


M = TypeVar("M", bound=HeapMember)


class RevisableHeap(Generic[M]):
    """Members ordered by `order`, then by a sequence number. `size` is the number of members.

    Guarantees:
        `push` and `pop` take logarithmic time, `discard` amortised constant time. Memory is bounded by the members in
        the heap, however many were discarded: stale entries are removed once they outnumber the members.

    Assumptions:
        No two members have the same sequence number.
    """

    __slots__ = ("_entries", "size")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, M]] = []
        self.size = 0

    def push(self, member: M, order: float, sequence: int) -> None:
        """Add a member; the lowest order is popped first."""
        # Two entries with the same order and sequence hold the same member, and tuple comparison takes identity for
        # equality: members themselves are never compared.
        entry = (order, sequence, member)
        member.entry = entry
        self.size += 1
        heappush(self._entries, entry)

    def first(self) -> M | None:
        """The member that `pop` would return, or None if the heap is empty."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if entry[2].entry is entry:
                return entry[2]
            heappop(entries)
        return None

    def pop(self) -> M:
        """Remove and return the first member.

        Raises:
            IndexError: the heap is empty.
        """
        entries = self._entries
        while True:
            entry = heappop(entries)
            member = entry[2]
            if member.entry is entry:
                member.entry = None
                self.size -= 1
                return member

    def discard(self, member: M) -> None:
        """Remove a member of this heap, at any position."""
        member.entry = None
        self.size -= 1
        entries = self._entries
        if len(entries) > 2 * self.size + _TOLERATED:
            entries[:] = [entry for entry in entries if entry[2].entry is entry]
            heapify(entries)

    def clear(self) -> None:
        """Remove all members."""
        for entry in self._entries:
            if entry[2].entry is entry:
                entry[2].entry = None
        self._entries.clear()
        self.size = 0
