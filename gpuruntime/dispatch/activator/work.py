"""Tasks of an activator that end by themselves: each has an owner, and none of them ends the process."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

__all__ = ["Work"]

_LOG: Final = logging.getLogger(__name__)


class Work:
    """Short tasks. A failure is logged with its stack; what it left undone is found again by redelivery."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> "asyncio.Task[None]":
        """Run a coroutine to its end."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finished(self, within: float) -> None:
        """Return when all have ended, or after these seconds."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)

    async def cancel(self) -> None:
        """Cancel all, and wait for their end."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _LOG.error("task of the activator failed", extra={"task": task.get_name()}, exc_info=task.exception())
