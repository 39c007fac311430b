"""The local deadline of leadership: until when this process may write.

A lease in the API server says who leads, but a process that was paused, cut off or starved does not hear that it leads
no more. Its own clock tells it: no write begins after the deadline, and one that is under way is given up there.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from gpuruntime.aio.clock import seconds_since_boot
from gpuruntime.kube.errors import NotSentError

__all__ = ["Fence", "NotLeaderError"]


class NotLeaderError(NotSentError):
    """This process does not lead, or ceased to lead before the write was done. Another replica does the work."""


class Fence:
    """Open until a deadline that whoever renews the leadership moves on; shut at first.

    Assumptions:
        One loop and its thread.

    Caveats:
        A write that the network delivers after its client gave it up is out of reach. The deadline is to be so early
        that the server is done with such a write before anybody else can lead.
    """

    def __init__(self, clock: Callable[[], float] = seconds_since_boot) -> None:
        self._clock = clock
        self._deadline = -math.inf
        self._shuts = 0
        self._passing: set[asyncio.Timeout] = set()

    def now(self) -> float:
        """The time by the clock that deadlines are given in."""
        return self._clock()

    def remaining(self) -> float:
        """For how many seconds writes may still be under way; 0 if the fence is shut or the deadline has passed."""
        return max(0.0, self._deadline - self._clock())

    def open_until(self, deadline: float) -> None:
        """Let writes pass until then. Writes under way keep the deadline that they began with."""
        self._deadline = deadline

    def shut(self) -> None:
        """Let nothing pass from now on, and give up every write under way."""
        self._deadline = -math.inf
        self._shuts += 1
        for limit in self._passing:
            # One that has just run out by itself cannot be moved any more.
            if not limit.expired():
                limit.reschedule(-math.inf)

    def check(self, what: str) -> float:
        """The seconds that remain for a write.

        Raises:
            NotLeaderError: there are none.
        """
        remaining = self.remaining()
        if remaining <= 0:
            raise _not_sent(what)
        return remaining

    def guard(self, what: str) -> Callable[[], None]:
        """A function that raises NotLeaderError once a write that begins now must not be sent any more.

        Opening the fence again after it was shut lets nothing pass that began before.
        """
        shuts = self._shuts

        def ask() -> None:
            # The clock is read last: what comes between it and the kernel is the window in which a process that is
            # stopped still sends.
            if shuts != self._shuts or self._clock() >= self._deadline:
                raise _not_sent(what)

        return ask

    @asynccontextmanager
    async def passing(self, what: str) -> AsyncIterator[float]:
        """The place for one write; gives the seconds that it may take, and cancels it when they are over.

        Raises:
            NotLeaderError: the fence is shut, or it shut or ran out while the write was under way.
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
                f"{what}: given up, because this process ceased to hold the lease meanwhile", outcome_unknown=True
            ) from error


def _not_sent(what: str) -> NotLeaderError:
    return NotLeaderError(f"{what}: not sent, because this process does not hold the lease (any more)")
