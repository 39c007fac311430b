"""Singleflight: concurrent callers share one run of a coroutine and its result."""

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
    """Runs `work` at most once at a time, however many callers wait for it.

    The run goes on while one of its callers is left. The last caller to be cancelled cancels the run and waits for its
    end, so no task outlives its callers.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._flight: _Flight[T] | None = None

    async def do(self) -> T:
        """The result of the current run, or of a new one if there is none."""
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
            # Marks the error as retrieved: no caller is left to raise it to.
            flight.task.exception()
