"""Waiting for a condition on state that others change."""

import asyncio
from collections.abc import Callable

__all__ = ["ChangeSignal"]


class ChangeSignal:
    """Whoever changes the state announces it; whoever waits looks again, and misses no announcement.

    Announcing needs no lock and does not wait, so it may be done while a task is being cancelled.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds; it is looked at now and after every announcement."""
        while not condition():
            await self.change()

    async def change(self) -> None:
        """Return after the next announcement. To miss none, do not await between looking at the state and this."""
        await self._changed.wait()
