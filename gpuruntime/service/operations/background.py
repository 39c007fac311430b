"""Requests before cleanup: background work of finished requests yields to requests whose callers still wait."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

__all__ = ["BackgroundThrottle"]


class BackgroundThrottle:
    """Delays the cleanup of operations while callers wait for the results of theirs.

    Cleanup loads the API server and the controllers that follow: a deleted unit takes a Deployment, a ReplicaSet and a
    pod with it. So cleanup does not start in every gap between two callers, but after `quiet` seconds without any.

    Guarantees: cleanup is delayed by at most `max_delay` seconds. At most `concurrency` cleanups run at a time, in the
    order in which they were asked for.
    """

    def __init__(self, max_delay: float, *, quiet: float = 0.1, concurrency: int = 4) -> None:
        self._max_delay = max_delay
        self._quiet = quiet
        self._slots = asyncio.Semaphore(concurrency)
        self._callers = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._idle_since = float("-inf")

    @contextmanager
    def foreground(self) -> Iterator[None]:
        """A caller waits for what the block does."""
        self._callers += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._callers -= 1
            if self._callers == 0:
                self._idle_since = asyncio.get_running_loop().time()
                self._idle.set()

    @asynccontextmanager
    async def background(self) -> AsyncIterator[None]:
        """No caller waits for what the block does; it starts when the process is quiet, or after `max_delay`."""
        deadline = asyncio.get_running_loop().time() + self._max_delay
        async with self._slots:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._wait_until_quiet()
            yield

    async def _wait_until_quiet(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._idle.is_set() or loop.time() < self._idle_since + self._quiet:
            await self._idle.wait()
            await asyncio.sleep(self._idle_since + self._quiet - loop.time())
