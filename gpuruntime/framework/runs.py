"""The invocations that one process runs: at most `concurrency` at a time, the others wait in order.

What happens when:

- It is cancelled, or its caller's connection is lost. While it waits it ends with 499 and is never started. While it
  runs its context is cancelled, and an async function gets CancelledError; it holds its slot until it returns.
- The function returns or raises: the envelope is sent, and the next one starts.
- The process drains: all of them are run and waited for, new ones are refused.
"""

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from gpuruntime.framework.context import Context, Invocation
from gpuruntime.framework.envelope import error_answer, response_answer
from gpuruntime.framework.user_function import UserFunction
from gpuruntime.framework.worker_threads import WorkerThreads

__all__ = ["RefusedRunError", "Run", "Runs"]

_CANCELLED: Final = 499
# What an async function may raise without ending the process. Asyncio would stop the loop for the last two, and a task
# keeps all others.
_RAISED: Final = (Exception, SystemExit, KeyboardInterrupt)
# In a thread nothing else would end the run: its caller would wait for ever.
_RAISED_IN_THREAD: Final = (BaseException,)


class RefusedRunError(Exception):
    """An invocation that was not started, and can be sent elsewhere or later."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Run:
    """One run of the function. `finished` is called once, with the envelope."""

    def __init__(self, invocation: Invocation, state: Any, finished: Callable[[bytes], None]) -> None:
        self.invocation = invocation
        self.context = Context(invocation, state)
        self.finished = finished
        self.task: asyncio.Task[bytes] | None = None


class Runs:
    """Starts, cancels and drains runs. Used in the event loop only.

    Guarantees:
        An id runs at most once at a time. A started run ends with exactly one envelope, whatever the function does,
        unless the process ends first.
    """

    def __init__(self, function: UserFunction, threads: WorkerThreads, concurrency: int) -> None:
        self.state: Any = None
        self._function = function
        self._threads = threads
        self._free = concurrency
        self._waiting: deque[Run] = deque()
        self._runs: dict[str, Run] = {}
        self._idle: asyncio.Future[None] | None = None
        self._draining = False

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def is_draining(self) -> bool:
        return self._draining

    def start(self, invocation: Invocation, finished: Callable[[bytes], None]) -> Run:
        """Run the function, now or when a slot is free.

        Raises:
            RefusedRunError: the process drains, or the id runs already.
        """
        if self._draining:
            raise RefusedRunError(503, "the framework is shutting down and takes no more invocations")
        if invocation.id in self._runs:
            raise RefusedRunError(409, f"invocation {invocation.id} is running already")
        run = self._runs[invocation.id] = Run(invocation, self.state, finished)
        self._waiting.append(run)
        self._start_waiting()
        return run

    def cancel(self, run: Run) -> None:
        """Cancel a run; one that has ended stays as it is."""
        if self._runs.get(run.invocation.id) is not run or run.context.cancelled:
            return
        run.context.cancel_event.set()
        if run in self._waiting:
            self._waiting.remove(run)
            self._end(run, error_answer(_CANCELLED, "cancelled before it was started"))
        elif run.task is not None:
            run.task.cancel()

    def find(self, id_: str) -> Run | None:
        return self._runs.get(id_)

    async def drain(self) -> None:
        """Refuse new runs, and wait until all have ended."""
        self._draining = True
        if self._runs:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle

    def _start_waiting(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            run = self._waiting.popleft()
            if self._function.is_async:
                run.task = asyncio.get_running_loop().create_task(_called_async(self._function, run))
                run.task.add_done_callback(functools.partial(self._task_done, run))
            else:
                work = functools.partial(contextvars.copy_context().run, _called, self._function, run)
                self._threads.run(work, functools.partial(self._free_slot, run))

    def _task_done(self, run: Run, task: asyncio.Task[bytes]) -> None:
        if task.cancelled():
            self._free_slot(run, error_answer(_CANCELLED, "cancelled"))
            return
        error = task.exception()
        self._free_slot(run, task.result() if error is None else _failure(error, run.context))

    def _free_slot(self, run: Run, answer: bytes) -> None:
        self._free += 1
        self._end(run, answer)
        self._start_waiting()

    def _end(self, run: Run, answer: bytes) -> None:
        del self._runs[run.invocation.id]
        run.finished(answer)
        if self._idle is not None and not self._runs and not self._idle.done():
            self._idle.set_result(None)


def _called(function: UserFunction, run: Run) -> bytes:
    try:
        return response_answer(function(run.invocation.payload, run.context))
    except _RAISED_IN_THREAD as error:
        return _failure(error, run.context)


async def _called_async(function: UserFunction, run: Run) -> bytes:
    try:
        return response_answer(await function(run.invocation.payload, run.context))
    except _RAISED as error:
        return _failure(error, run.context)


def _failure(error: BaseException, context: Context) -> bytes:
    reason = _reason(error)
    if context.cancelled:
        return error_answer(_CANCELLED, f"cancelled: {reason}")
    context.log.error("the function raised", exc_info=error)
    return error_answer(500, reason)


def _reason(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the error is the user's, and so is what its text raises
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
