"""Fair scheduling: many tasks that wake up at once continue a few per iteration of the event loop."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

__all__ = ["Turns"]

# In one iteration uvloop accepts one connection, and advances reads and writes of the others by one step.
_PER_ITERATION: Final = 2


class Turns:
    """A first-in, first-out queue of waiting tasks that are resumed a few at a time.

    Guarantees:
        At most `per_iteration` of them continue in one iteration of the loop, in the order of their arrival. I/O and
        other callbacks of the loop run in between.
    """

    def __init__(self, per_iteration: int = _PER_ITERATION) -> None:
        self._per_iteration = per_iteration
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False

    async def next(self) -> None:
        """Wait for the caller's turn, which lasts until its next await."""
        future = asyncio.get_running_loop().create_future()
        self.enqueue((future,))
        await future

    def enqueue(self, futures: Iterable["asyncio.Future[None]"]) -> None:
        """Append futures to the queue; each gets its result when it is its turn."""
        self._waiting.extend(futures)
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        self._is_scheduled = False
        resumed = 0
        while self._waiting and resumed < self._per_iteration:
            first = self._waiting.popleft()
            if not first.done():
                first.set_result(None)
                resumed += 1
        self.enqueue(())
