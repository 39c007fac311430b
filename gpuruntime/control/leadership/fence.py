"""The local deadline of leadership: until when this process may write.

The Lease says who leads, but a process that was paused, partitioned or starved does not learn that it no longer leads.
So it relies on its own clock: no write begins after the deadline, and a write in flight is cancelled there.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gpuruntime.aio.clock import seconds_since_boot
from gpuruntime.kube.errors import NotSentError

__all__ = ["Fence", "NotLeaderError"]


class NotLeaderError(NotSentError):
    """This process does not lead, or stopped leading before the write was done. Another replica does the work."""


class Fence:
    """Open until a deadline, which each renewal of the lease extends; shut at first.

    Assumptions:
        One loop and its thread.

    Caveats:
        A write that the network delivers after its client cancelled it cannot be stopped. Choose the deadline so early
        that the server is done with such a write before another replica can lead.
    """

    def __init__(self, clock: Callable[[], float] = seconds_since_boot) -> None:
        self._clock = clock
        self._deadline = -math.inf
        self._shuts = 0
        self._passing: set[asyncio.Timeout] = set()

    def now(self) -> float:
        """The current time of the clock of the deadlines."""
        return self._clock()

    def remaining(self) -> float:
        """The seconds until the deadline; 0 if the fence is shut or the deadline has passed."""
        return max(0.0, self._deadline - self._clock())

    def open_until(self, deadline: float) -> None:
        """Let writes pass until the deadline. Writes in flight keep the deadline that they began with."""
        self._deadline = deadline

    def shut(self) -> None:
        """Let no write pass from now on, and cancel every write in flight."""
        self._deadline = -math.inf
        self._shuts += 1
        for limit in self._passing:
            # A timeout that has just expired cannot be rescheduled.
            if not limit.expired():
                limit.reschedule(-math.inf)

    def check(self, what: str) -> float:
        """The seconds that remain for a write.

        Raises:
            NotLeaderError: no time remains.
        """
        remaining = self.remaining()
        if remaining <= 0:
            raise _not_sent(what)
        return remaining

    def guard(self, what: str) -> Callable[[], None]:
        """A function that raises NotLeaderError once a write that begins now must no longer be sent.

        A fence that was shut and opened again does not let earlier writes pass.
        """
        shuts = self._shuts

        def ask() -> None:
            # The clock is read last: between here and the kernel is the window in which a stopped process still sends.
            if shuts != self._shuts or self._clock() >= self._deadline:
                raise _not_sent(what)

        return ask

    @asynccontextmanager
    async def passing(self, what: str) -> AsyncIterator[float]:
        """The context of one write; yields the seconds that it may take, and cancels it after them.

        Raises:
            NotLeaderError: the fence is shut, or was shut or expired while the write was in flight.
        """
        remaining = self.check(what)
        limit = asyncio.timeout(remaining)
        try:
            async with limit:
                self._passing.add(limit)
                try:
                    yield remaining
                finally:
                    self._passing.discard(limit)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise NotLeaderError(
                f"{what}: cancelled, because this process lost the lease", outcome_unknown=True
            ) from error


def _not_sent(what: str) -> NotLeaderError:
    return NotLeaderError(f"{what}: not sent, because this process does not hold the lease")
