"""Waiting until something that changes by steps has come far enough."""

import asyncio
from collections.abc import Callable

__all__ = ["Milestones"]


class Milestones:
    """Conditions that somebody waits for, looked at after every step."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Callable[[], bool]] = {}

    async def reached(self, condition: Callable[[], bool]) -> None:
        """Returns as soon as the condition holds; at once if it does now.

        Raises:
            Exception: whatever the condition raises, now or after a step.
        """
        if condition():
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = condition
        try:
            await future
        finally:
            del self._waiting[future]

    def step(self) -> None:
        """Something changed. Costs nothing while nobody waits, and never fails: an error is the waiting one's."""
        for future, condition in tuple(self._waiting.items()):
            if future.done():
                continue
            try:
                reached = condition()
            except Exception as error:  # noqa: BLE001 - other people's code must not stop whoever makes the step
                future.set_exception(error)
            else:
                if reached:
                    future.set_result(None)
