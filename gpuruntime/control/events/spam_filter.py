"""Limits on events as in client-go: aggregation of similar events, and a rate limit for each object."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from gpuruntime.aio.lru import LRU

__all__ = ["Aggregator", "SpamFilter", "aggregated"]

# The text that client-go uses.
_PREFIX: Final = "(combined from similar events): "
_LRU_SIZE: Final = 4096


def aggregated(note: str) -> str:
    """The note of an aggregated event, of whose notes this is the newest."""
    return _PREFIX + note


class Aggregator:
    """Detects groups of events that differ only in their notes and are too many to read one by one.

    Caveats:
        An LRU of 4096 groups: an evicted group starts afresh.
    """

    def __init__(self, *, limit: int = 10, window_seconds: float = 600.0, lru_size: int = _LRU_SIZE) -> None:
        self._limit = limit
        self._window_seconds = window_seconds
        self._groups: LRU[Hashable, OrderedDict[int, float]] = LRU(lru_size)

    def __len__(self) -> int:
        return len(self._groups)

    def observe(self, group: Hashable, note: str, now: float) -> bool:
        """Record a note of a group; returns whether the group had more than `limit` distinct notes in the window."""
        seen = self._groups.get(group)
        if seen is None:
            seen = OrderedDict()
            self._groups.put(group, seen)
        # Hashes, because notes are long. The latest `limit` + 1 are enough to decide.
        fingerprint = hash(note)
        seen[fingerprint] = now
        seen.move_to_end(fingerprint)
        while len(seen) > self._limit + 1 or now - next(iter(seen.values())) > self._window_seconds:
            seen.popitem(last=False)
        return len(seen) > self._limit


class SpamFilter:
    """A token bucket per object: `burst` tokens, and one more every `refill_seconds`.

    Guarantees:
        From its first token on, an object gets at most `burst` tokens plus one for every `refill_seconds` since. A
        token is available at the latest `refill_seconds` after a refusal. A clock that is set back grants no extra
        tokens, and at worst leaves a bucket empty.

    Caveats:
        An LRU of 4096 objects: an evicted object starts with a full bucket.
    """

    def __init__(self, *, burst: int = 25, refill_seconds: float = 300.0, lru_size: int = _LRU_SIZE) -> None:
        self._refill_seconds = refill_seconds
        self._full_seconds = burst * refill_seconds
        # A bucket is stored as the time at which it will be full again: no refilling, no rounding.
        self._full_at: LRU[Hashable, float] = LRU(lru_size)

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, subject: Hashable, now: float) -> bool:
        """Take a token of an object, if it has one; `now` is in seconds."""
        known = self._full_at.get(subject)
        full_at = now if known is None else min(max(known, now), now + self._full_seconds)
        is_allowed = full_at + self._refill_seconds <= now + self._full_seconds
        self._full_at.put(subject, full_at + self._refill_seconds if is_allowed else full_at)
        return is_allowed
