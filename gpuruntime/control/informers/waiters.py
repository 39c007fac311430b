"""Coroutines that wait until a condition on changing state holds."""

import asyncio
from collections.abc import Callable

__all__ = ["Waiters"]


class Waiters:
    """Waiting coroutines and their conditions, each checked after every change."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return as soon as the condition holds; at once if it holds now.

        Raises:
            Exception: what the condition raises, now or after a change.
        """
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        try:
            await future
        finally:
            del self._waiting[future]

    def notify(self) -> None:
        """Check all conditions, after a change. Never raises: the error of a condition goes to its waiter."""
        for future, condition in tuple(self._waiting.items()):
            if future.done():
                continue
            try:
                holds = condition()
            except Exception as error:  # noqa: BLE001 - user code must not stop the caller, who made the change
                future.set_exception(error)
            else:
                if holds:
                    future.set_result(None)
