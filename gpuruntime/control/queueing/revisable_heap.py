"""A heap whose members can leave early and come back elsewhere, without searching or sorting it again."""

from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

__all__ = ["HeapMember", "RevisableHeap"]

# Below this many leftovers a rebuild is not worth its while.
_TOLERATED = 64


class HeapMember:
    """What can be in a heap, in one at a time. `entry` is None at first; then it belongs to the heap."""

    __slots__ = ("entry",)

    entry: tuple[float, int, Any] | None


M = TypeVar("M", bound=HeapMember)


class RevisableHeap(Generic[M]):
    """Members in the order of a number, then of a sequence number. `size` is how many there are.

    Guarantees:
        `push` and `pop` take logarithmic time, `discard` constant time on average. Memory is bounded by the members in
        the heap, however often some left early: what they leave behind is cleared once it outnumbers those who stay.

    Assumptions:
        A sequence number is never given to two members.
    """

    __slots__ = ("_entries", "size")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, M]] = []
        self.size = 0

    def push(self, member: M, order: float, sequence: int) -> None:
        """Let a member in; the lowest order leaves first."""
        # Two entries with the same order and sequence hold the same member, and tuples take identity for equality:
        # members are never asked to compare.
        entry = (order, sequence, member)
        member.entry = entry
        self.size += 1
        heappush(self._entries, entry)

    def first(self) -> M | None:
        """The member that `pop` would give, or None in an empty heap."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if entry[2].entry is entry:
                return entry[2]
            heappop(entries)
        return None

    def pop(self) -> M:
        """Let the first member out.

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
        """Let out a member of this heap, wherever it stands."""
        member.entry = None
        self.size -= 1
        entries = self._entries
        if len(entries) > 2 * self.size + _TOLERATED:
            entries[:] = [entry for entry in entries if entry[2].entry is entry]
            heapify(entries)

    def clear(self) -> None:
        """Let everyone out."""
        for entry in self._entries:
            if entry[2].entry is entry:
                entry[2].entry = None
        self._entries.clear()
        self.size = 0
