"""Idle workers of a queue, woken one per item."""

import asyncio
from collections import deque
from contextlib import suppress

__all__ = ["IdleWorkers"]


class IdleWorkers:
    """The workers of one queue that wait for an item, longest wait first.

    `woken` is the number of workers that were woken and have not run since. Each of them has an item reserved in the
    queue: a worker that arrives later may only take an item beyond those, or a woken worker would find none.

    Guarantees:
        No wake-up is lost: if a woken worker is cancelled before it runs, the next one is woken.
    """

    __slots__ = ("_loop", "_waiters", "woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiters: deque[asyncio.Future[None]] = deque()
        self.woken = 0

    async def wait(self) -> None:
        """Return once woken."""
        waiter = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                # `wake` may have removed it already, without waking it.
                with suppress(ValueError):
                    self._waiters.remove(waiter)
            else:
                # Woken first and cancelled then, both before the worker could run.
                self.woken -= 1
                self.wake(1)
            raise
        self.woken -= 1

    def wake(self, count: int) -> None:
        """Wake up to `count` workers, longest wait first."""
        waiters = self._waiters
        while count and waiters:
            waiter = waiters.popleft()
            # The waiter of a cancelled worker stays in the deque until the worker runs.
            if not waiter.done():
                waiter.set_result(None)
                self.woken += 1
                count -= 1

    def wake_all(self) -> None:
        self.wake(len(self._waiters))
