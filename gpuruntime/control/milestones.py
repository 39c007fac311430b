"""Waiting until something that changes by steps has come far enough."""

import asyncio
from collections.abc import Callable

__all__ = ["Milestones"]


class Milestones:
    """Conditions that somebody waits for, looked at after every step."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def reached(self, condition: Callable[[], bool]) -> None:
        """Returns as soon as the condition holds; at once if it does now."""
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        try:
            await future
        finally:
            del self._waiting[future]

    def step(self) -> None:
        """Something changed. Costs nothing while nobody waits."""
        for future, condition in tuple(self._waiting.items()):
            if not future.done() and condition():
                future.set_result(None)
