"""Tasks that start together, fail together and end together: one floor of a manager."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

__all__ = ["RunnableGroup"]

_LOG = logging.getLogger(__name__)
# Others may have used up the grace of all; who ends quickly must not pay for that.
_LEAST_SECONDS = 1.0


class RunnableGroup:
    """The tasks of one group, owned by a block.

    Guarantees:
        - A task that fails, or that ends although it should run for ever, is reported to `alarm` at once.
        - Leaving the block cancels the tasks that are left and waits for them, so many seconds at most, but a second in
          any case; those that will not end by then are named in the log and left behind.
        - Tasks of others are never touched.
    """

    def __init__(self, name: str, alarm: Callable[[BaseException], None], grace: Callable[[], float]) -> None:
        self._name = name
        self._alarm = alarm
        self._grace = grace
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = False

    async def __aenter__(self) -> Self:
        self._open = True
        return self

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` until the block ends.

        Raises:
            RuntimeError: the block is not open, or ending.
            TypeError: what is to be run is no coroutine.
        """
        if not asyncio.iscoroutine(work):
            raise TypeError(
                f"{name}: expected a function that gives a coroutine, got one that gave {work!r}: make it async"
            )
        if not self._open:
            work.close()
            raise RuntimeError(f"{name} cannot start: the {self._name} of the manager are not running")
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def names(self) -> tuple[str, ...]:
        """Who is at work."""
        return tuple(task.get_name() for task in self._tasks)

    async def close(self) -> None:
        """End the tasks as leaving the block does, and start none any more."""
        self._open = False
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=max(_LEAST_SECONDS, self._grace()))
            if stuck:
                names = sorted(task.get_name() for task in stuck)
                _LOG.error("tasks did not end in time and are left behind", extra={"group": self._name, "tasks": names})

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._alarm(error)
        elif self._open:
            # Ended by itself, or cancelled by something that it waited for: nobody here has cancelled it yet.
            self._alarm(RuntimeError(f"{task.get_name()} ended although it should run until it is cancelled"))
