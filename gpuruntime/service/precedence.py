"""Who is waited for goes first: what is left to do after an answer gives way to requests that have none yet."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

__all__ = ["Precedence"]


class Precedence:
    """Lets the rest of an operation wait while callers wait for the answer to theirs.

    Guarantees: nothing waits longer than `patience` seconds for callers, but for those of the rest that came before,
    of which `abreast` are worked on at a time.
    """

    def __init__(self, patience: float = 2.0, abreast: int = 4) -> None:
        self._patience = patience
        self._lanes = asyncio.Semaphore(abreast)
        self._callers = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Somebody waits for what happens in the block."""
        self._callers += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._callers -= 1
            if self._callers == 0:
                self._quiet.set()

    @asynccontextmanager
    async def afterwards(self) -> AsyncIterator[None]:
        """Nobody waits for what happens in the block, which begins when there is a gap, or when it is overdue."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience
        async with self._lanes:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._quiet.wait()
            yield
