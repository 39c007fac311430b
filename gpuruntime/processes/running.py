"""Running a process: on the fast loop where there is one, to an end that comes."""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine
from typing import Any, Final

from gpuruntime.aio.collector import collect_rarely
from gpuruntime.processes.open_files import raise_open_files

__all__ = ["refused", "run_process"]

_LOG = logging.getLogger(__name__)
_MOMENT_SECONDS: Final = 0.5


def run_process(process: Coroutine[Any, Any, None]) -> None:
    """Run to the end. Tasks that will not end are named in the log, and the process exits with 1 without them."""
    collect_rarely()
    raise_open_files()
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - the extra `fast`, which saves a quarter of the CPU
    except ImportError:
        asyncio.run(_to_the_end(process))
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_to_the_end(process))


def refused(*problems: object) -> int:
    """Tell the user, in a line each, what is wrong; gives the exit code."""
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1


async def _to_the_end(process: Coroutine[Any, Any, None]) -> None:
    try:
        await process
    finally:
        await _leave()


async def _leave() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    stuck = (await asyncio.wait(left, timeout=_MOMENT_SECONDS))[1] if left else set()
    if stuck:
        # The loop waits for tasks before it closes, and these had their time.
        _LOG.error("exiting without tasks that did not end", extra={"tasks": sorted(map(asyncio.Task.get_name, stuck))})
        os._exit(1)
