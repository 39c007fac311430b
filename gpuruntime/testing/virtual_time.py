"""Time that a test moves: an event loop whose clock jumps to the next timer as soon as nothing else can happen.

A test of a thirty-minute backoff runs in milliseconds and gives the same result every time::

    def test_it_waits_half_an_hour() -> None:
        async def story() -> float:
            await asyncio.sleep(1800)
            return asyncio.get_running_loop().time()

        assert run_virtual(story()) == 1800
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["NothingCanHappenError", "VirtualTimeLoop", "run_virtual"]

T = TypeVar("T")


class NothingCanHappenError(Exception):
    """Every task waits, and there is no timer that could wake one: outside virtual time this would hang for ever."""


def run_virtual(story: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, which starts at 0; gives its result.

    Guarantees:
        Whatever is ready runs before the clock moves. The clock moves to the time of the next timer exactly.

    Caveats:
        For code without sockets, subprocesses and threads: the loop cannot know that one of them is about to answer.

    Raises:
        NothingCanHappenError: the story waits for something that never comes.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(story)


class _JumpingSelector(selectors.DefaultSelector):
    """Waits for nothing: it tells the loop how long it would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise NothingCanHappenError("every task waits and no timer is set: something is never awaited or never set")
        self.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The event loop of `run_virtual`."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now
