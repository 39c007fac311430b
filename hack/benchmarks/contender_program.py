"""The contender's side of the bench: its command line, and how it measures itself.

It runs in the environments of all peers, so it needs only the standard library.
"""

import argparse
import asyncio
import importlib
import json
import os
import re
import sys
import time
import traceback
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

__all__ = ["Meter", "Order", "report_ready", "resident_kb", "run_contender", "wait_until_done"]

_TICK_SECONDS = 0.001


class Order(NamedTuple):
    """The task of a contender: `objects` to wait for, `seconds` to run, and the `form` in which our cache keeps
    objects.
    """

    objects: int
    seconds: float
    form: str


class Meter:
    """Measures this process from the creation of the meter on. Memory is the resident set size (Linux only)."""

    def __init__(self) -> None:
        self._stall = 0.0
        self._busy = 0.0
        self._ticked: tuple[float, float] | None = None
        self._before = resident_kb()
        self._spent = time.process_time()
        self._began = time.perf_counter()

    @asynccontextmanager
    async def watching_stalls(self) -> AsyncIterator[None]:
        """Measure the longest delay of a task that wants to run every millisecond.

        On a busy machine other processes delay it as well, so the CPU time of the loop's thread between two ticks is
        measured too: that part is caused by the loop itself.
        """
        ticker = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            ticker.cancel()
            await asyncio.wait([ticker])

    def finish(self, objects: int, **more: float) -> NoReturn:
        """Print the result and exit at once, so that cleaning up is not measured.

        `more` holds further measurements of the contender.
        """
        now = time.perf_counter()
        spent = time.process_time()
        after = resident_kb()
        watched = self._ticked is not None
        self._note_tick()
        result = {
            "seconds": now - self._began,
            "cpu_seconds": spent - self._spent,
            "rss_before_kb": self._before,
            "rss_after_kb": after,
            "peak_rss_kb": _memory("VmHWM"),
            "longest_stall_ms": self._stall * 1000 if watched else None,
            "longest_busy_ms": self._busy * 1000 if watched else None,
            "objects": objects,
            **more,
        }
        print(json.dumps(result), flush=True)
        os._exit(0)

    async def _tick(self) -> None:
        while True:
            self._note_tick()
            await asyncio.sleep(_TICK_SECONDS)

    def _note_tick(self) -> None:
        now, spent = time.perf_counter(), time.thread_time()
        if self._ticked is not None:
            self._stall = max(self._stall, now - self._ticked[0])
            self._busy = max(self._busy, spent - self._ticked[1])
        self._ticked = (now, spent)


def run_contender(works: Mapping[str, Callable[[Order], Awaitable[None]]]) -> None:
    """Run the scenario that the command line names; a failure is the last line of the output."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=sorted(works))
    parser.add_argument("--objects", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--form", default="")
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    arguments = parser.parse_args()
    loop_factory = importlib.import_module("uvloop").new_event_loop if arguments.loop == "uvloop" else None

    async def work() -> None:
        await works[arguments.scenario](Order(arguments.objects, arguments.seconds, arguments.form))

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(work())
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this contender's failure
        traceback.print_exception(error)
        sys.exit(_in_one_line(error))


async def report_ready() -> None:
    """Report to the bench that the contender is ready; returns when the bench has received it."""
    await asyncio.to_thread(_ask, os.environ["READY"])


async def wait_until_done() -> None:
    """Wait until the bench has observed the expected state."""
    await asyncio.to_thread(_ask, os.environ["DONE"])


def resident_kb() -> int:
    """The resident set size of this process."""
    return _memory("VmRSS")


def _ask(address: str) -> None:
    urllib.request.urlopen(address).close()


def _in_one_line(error: Exception) -> str:
    """The first error of a group in one line: the bench shows the last line of a contender."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    words = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {words[0]}"


def _memory(line: str) -> int:
    match = re.search(rf"^{line}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    if match is None:
        raise RuntimeError(f"/proc/self/status has no line {line}: the bench needs Linux")
    return int(match.group(1))
