"""A signal for waiting until a condition on shared state holds."""

import asyncio
from collections.abc import Callable

__all__ = ["ChangeSignal"]


class ChangeSignal:
    """Wakes all waiters after each change of shared state, so that each checks its condition again.

    Like a condition variable, but `announce` needs no lock and never blocks, so it works in a task that is being
    cancelled. No announcement is missed.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()

    def announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds; it is checked now and after every announcement."""
        while not condition():
            await self.change()

    async def change(self) -> None:
        """Wait for the next announcement. To miss none, do not await between checking the state and this call."""
        await self._changed.wait()
