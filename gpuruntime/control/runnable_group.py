"""A group of a manager's runnables: supervised tasks that start and stop together."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

__all__ = ["RunnableGroup"]

_LOG = logging.getLogger(__name__)
# Earlier groups may have used up the shared shutdown grace; a task that ends quickly must still get the chance to.
_MIN_GRACE_SECONDS = 1.0


class RunnableGroup:
    """The tasks of one group, owned by an `async with` block.

    Guarantees:
        - A task that fails, or that returns before it is cancelled, is reported to `alarm` at once.
        - Leaving the block cancels the remaining tasks and waits for them for `grace()` seconds, at least one. Tasks
          that have not ended by then are logged and abandoned.
        - No other tasks are touched.
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
            RuntimeError: the block has not been entered, or is being left.
            TypeError: `work` is not a coroutine.
        """
        if not asyncio.iscoroutine(work):
            raise TypeError(
                f"{name}: expected a function that returns a coroutine, got one that returned {work!r}: make it async"
            )
        if not self._open:
            work.close()
            raise RuntimeError(f"{name} cannot start: the manager's {self._name} are not running")
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the running tasks."""
        return tuple(task.get_name() for task in self._tasks)

    async def close(self) -> None:
        """Stop the tasks as leaving the block does; no task can be started afterwards."""
        self._open = False
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=max(_MIN_GRACE_SECONDS, self._grace()))
            if stuck:
                names = sorted(task.get_name() for task in stuck)
                _LOG.error("tasks did not stop in time, abandoned", extra={"group": self._name, "tasks": names})

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._alarm(error)
        elif self._open:
            # It returned, or something that it awaited was cancelled: this group has not cancelled it.
            self._alarm(RuntimeError(f"{task.get_name()} returned, but a runnable must run until it is cancelled"))
