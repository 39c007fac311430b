"""A queue of failed keys that are retried with exponential backoff per key."""

import asyncio
import heapq
import math
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

__all__ = ["Retries"]

K = TypeVar("K", bound=Hashable)
_BASE_SECONDS: Final = 0.1
_CAP_SECONDS: Final = 60.0


class Retries(Generic[K]):
    """Failed keys, in the order in which they are due.

    Guarantees:
        The delay of a key doubles with each failure, from 0.1 s to 60 s, until the key is forgotten. A failure of a key
        that is already waiting does not postpone it.

    Caveats:
        Only one consumer may await `next` at a time.
    """

    def __init__(self) -> None:
        self._failures: dict[K, int] = {}
        self._due: dict[K, float] = {}
        # Entries that differ from `_due` are obsolete.
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._changed = asyncio.Event()

    def failed(self, key: K) -> None:
        """Schedule a retry of the key after its current delay."""
        if key in self._due:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = min(math.ldexp(_BASE_SECONDS, min(failures, 32)), _CAP_SECONDS)
        self._due[key] = asyncio.get_running_loop().time() + delay
        self._sequence += 1
        heapq.heappush(self._heap, (self._due[key], self._sequence, key))
        self._changed.set()

    def forget(self, key: K) -> None:
        """Cancel the retry of the key, and reset its delay."""
        self._failures.pop(key, None)
        self._due.pop(key, None)

    async def next(self) -> K:
        """Wait for the next due key and return it. Report the outcome with `failed` or `forget`."""
        loop = asyncio.get_running_loop()
        while True:
            at = self._first()
            if at <= loop.time():
                _, _, key = heapq.heappop(self._heap)
                del self._due[key]
                return key
            self._changed.clear()
            try:
                async with asyncio.timeout_at(None if at == math.inf else at):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _first(self) -> float:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf
