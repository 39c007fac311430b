"""One run of a coroutine for everybody who wants its result at the same time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

__all__ = ["Singleflight"]

T = TypeVar("T")


class _Flight(Generic[T]):
    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiters = 0


class Singleflight(Generic[T]):
    """A piece of work that runs at most once at a time, however many wait for it.

    The waiters own the run together: it goes on while one of them is left, and the last one to be cancelled cancels
    it and sees it end. So no task outlives those who asked for it.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._flight: _Flight[T] | None = None

    async def join(self) -> T:
        """The result of the run under way, or of a new one."""
        flight = self._flight
        if flight is None or flight.task.done():
            flight = self._flight = _Flight(asyncio.create_task(self._work()))
        flight.waiters += 1
        try:
            # Unlike awaiting the task, this leaves it alone when the waiter is cancelled.
            await asyncio.wait((flight.task,))
        finally:
            flight.waiters -= 1
            if flight.waiters == 0 and not flight.task.done():
                await self._abandon(flight)
        return flight.task.result()

    async def _abandon(self, flight: _Flight[T]) -> None:
        self._flight = None
        flight.task.cancel()
        await asyncio.wait((flight.task,))
        if not flight.task.cancelled():
            # Marks the outcome as seen: there is nobody left to hear of it.
            flight.task.exception()
