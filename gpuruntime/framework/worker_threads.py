"""Threads for sync functions. They are daemons: a function that never returns does not keep the process alive."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["WorkerThreads"]


class WorkerThreads:
    """Runs jobs in threads, which are started when they are first needed, and used again.

    With one job at a time all run in the same thread: libraries that bind their state to a thread, such as CUDA, find
    what `setup` made.

    Caveats:
        `run` is called in the event loop only. The caller limits how many jobs run at once.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]]] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0

    def run(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Run a job, which must not raise, in a thread; `done` gets its result in the event loop."""
        self._busy += 1
        if self._busy > self._threads:
            self._threads += 1
            threading.Thread(target=self._work, name=f"function-{self._threads}", daemon=True).start()
        self._jobs.put((job, done))

    def _work(self) -> None:
        while True:
            job, done = self._jobs.get()
            result = job()
            try:
                self._loop.call_soon_threadsafe(self._finish, done, result)
            except RuntimeError:
                # The loop was closed: the process ends.
                return
            del job, done, result

    def _finish(self, done: Callable[[Any], None], result: Any) -> None:
        self._busy -= 1
        done(result)
