"""Running a process: the open files limit, the event loop, and an end that does not hang.

It imports little, so that small processes start quickly.
"""

import asyncio
import logging
import os
import resource
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

from gpuruntime.aio import collect_rarely

__all__ = ["raise_open_files", "run_process"]

_LOG = logging.getLogger(__name__)
_CANCEL_SECONDS: Final = 0.5
_ENOUGH_FILES: Final = 65_536


def run_process(process: Coroutine[Any, Any, None]) -> None:
    """Run to the end, on uvloop if it is installed.

    Tasks that do not end when they are cancelled are named in the log, and the process exits with 1 without them.
    """
    collect_rarely()
    raise_open_files()
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - the extra `fast`, which saves a quarter of the CPU
    except ImportError:
        asyncio.run(_to_the_end(process))
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_to_the_end(process))


def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard limit, to 65,536 at most. It never lowers the limit.

    The soft limit is low for the sake of programs that use `select`, which neither of our event loops does.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Where it is forbidden, the process keeps its limit.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _to_the_end(process: Coroutine[Any, Any, None]) -> None:
    try:
        await process
    finally:
        await _cancel_all()


async def _cancel_all() -> None:
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    stuck = (await asyncio.wait(left, timeout=_CANCEL_SECONDS))[1] if left else set()
    if stuck:
        # The loop waits for all tasks before it closes, without a limit.
        _LOG.error("exiting without tasks that did not end", extra={"tasks": sorted(map(asyncio.Task.get_name, stuck))})
        os._exit(1)
