"""Workers that wait for something to do, woken one by one."""

import asyncio
from collections import deque
from contextlib import suppress

__all__ = ["SleepingWorkers"]


class SleepingWorkers:
    """The workers of one queue that found nothing to do, in the order in which they came.

    `woken` is the number of those that were woken and did not run since. What is there to do is theirs: somebody who
    asks later may only take what is left over, or they would have been woken for nothing.

    Guarantees:
        A wake-up is never lost: one that a cancelled worker can no longer use is passed on.
    """

    __slots__ = ("_line", "_loop", "woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._line: deque[asyncio.Future[None]] = deque()
        self.woken = 0

    async def sleep(self) -> None:
        """Return once woken."""
        alarm = self._loop.create_future()
        self._line.append(alarm)
        try:
            await alarm
        except asyncio.CancelledError:
            if alarm.cancelled():
                # It may have been taken out of the line already, to no effect.
                with suppress(ValueError):
                    self._line.remove(alarm)
            else:
                # Woken first and cancelled then, both before the worker could run.
                self.woken -= 1
                self.wake(1)
            raise
        self.woken -= 1

    def wake(self, count: int) -> None:
        """Wake so many of the workers, those that wait longest, or all if they are fewer."""
        line = self._line
        while count and line:
            alarm = line.popleft()
            # A worker that is being cancelled stays in the line until it runs.
            if not alarm.done():
                alarm.set_result(None)
                self.woken += 1
                count -= 1

    def wake_all(self) -> None:
        self.wake(len(self._line))
