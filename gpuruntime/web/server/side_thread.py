"""Work on large bodies beside the event loop: one piece at a time, so that ten of them slow the loop down like one."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from aiohttp import web

__all__ = ["SideThread"]

T = TypeVar("T")
_SMALL_BODY: Final = 2**12


class SideThread:
    """One thread, for whatever takes longer than a request may hold up the others.

    Guarantees:
        Work whose caller went away before its turn is not done at all.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bodies")

    async def run(self, work: Callable[[], T], size: int) -> T:
        """What `work` gives, which looks at a body of `size` bytes: at once if that is small."""
        if size <= _SMALL_BODY:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def close(self, _app: web.Application) -> None:
        """End the thread; for the signal `on_cleanup`."""
        self._thread.shutdown(wait=False, cancel_futures=True)
