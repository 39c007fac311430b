"""How many writes of events one object may cause."""

from collections.abc import Hashable
from typing import Final

from gpuruntime.control.lru import LRU

__all__ = ["EventBudget"]

_MEMORY: Final = 4096


class EventBudget:
    """A token bucket for each object: `burst` tokens, and one more each `refill_seconds`.

    Guarantees:
        From its first token on, an object gets at most `burst` tokens, and one for each `refill_seconds` since, from
        any sequence of wishes. Whoever waits `refill_seconds` after a refusal gets one. A clock that is set back gives
        nothing away, and leaves a bucket empty at worst.

    Caveats:
        4096 objects are remembered; one that so many others have overtaken starts afresh.
    """

    def __init__(self, *, burst: int = 25, refill_seconds: float = 300.0, memory: int = _MEMORY) -> None:
        self._refill_seconds = refill_seconds
        self._full_seconds = burst * refill_seconds
        # A bucket is known by the time at which it will be full again: there is nothing to refill, or to round.
        self._full_at: LRU[Hashable, float] = LRU(memory)

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, subject: Hashable, now: float) -> bool:
        """Take a token of an object, if it has one; `now` is in seconds."""
        known = self._full_at.get(subject)
        full_at = now if known is None else min(max(known, now), now + self._full_seconds)
        is_allowed = full_at + self._refill_seconds <= now + self._full_seconds
        self._full_at.put(subject, full_at + self._refill_seconds if is_allowed else full_at)
        return is_allowed
