"""Who is waited for goes first: what is left to do after an answer gives way to requests that have none yet."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

__all__ = ["BackgroundThrottle"]


class BackgroundThrottle:
    """Lets the rests of operations wait while callers wait for the answers to theirs.

    What a rest writes keeps the API server busy, and all who follow up on it: a deleted unit takes a Deployment, a
    ReplicaSet and a pod with it. So a rest does not begin in any gap between two callers, but when there was none for
    `calm` seconds.

    Guarantees: no rest gives way for longer than `patience` seconds. `abreast` are worked on at a time, the oldest
    first.
    """

    def __init__(self, patience: float, *, calm: float = 0.1, abreast: int = 4) -> None:
        self._patience = patience
        self._calm = calm
        self._lanes = asyncio.Semaphore(abreast)
        self._callers = 0
        self._nobody_waits = asyncio.Event()
        self._nobody_waits.set()
        self._left = float("-inf")

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Somebody waits for what happens in the block."""
        self._callers += 1
        self._nobody_waits.clear()
        try:
            yield
        finally:
            self._callers -= 1
            if self._callers == 0:
                self._left = asyncio.get_running_loop().time()
                self._nobody_waits.set()

    @asynccontextmanager
    async def afterwards(self) -> AsyncIterator[None]:
        """Nobody waits for what happens in the block, which begins when it is calm, or when it is overdue."""
        deadline = asyncio.get_running_loop().time() + self._patience
        async with self._lanes:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._is_calm()
            yield

    async def _is_calm(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._nobody_waits.is_set() or loop.time() < self._left + self._calm:
            await self._nobody_waits.wait()
            await asyncio.sleep(self._left + self._calm - loop.time())
