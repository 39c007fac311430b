"""An LRU cache."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["LRU"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(Generic[K, V]):
    """A mapping of at most `limit` entries: a new entry evicts the least recently used one.

    `get` and `put` count as uses; `values` and `in` do not.
    """

    __slots__ = ("_entries", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V | None:
        """Set an entry; returns the value of the evicted entry, or None."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) <= self._limit:
            return None
        return self._entries.popitem(last=False)[1]

    def discard(self, key: K) -> None:
        self._entries.pop(key, None)

    def values(self) -> tuple[V, ...]:
        """All values, least recently used first."""
        return tuple(self._entries.values())
