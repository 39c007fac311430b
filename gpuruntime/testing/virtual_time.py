"""Virtual time: an event loop whose clock jumps to the next timer as soon as no task is ready.

A test of a thirty-minute backoff runs in milliseconds and is deterministic::

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

__all__ = ["DeadlockError", "VirtualTimeLoop", "run_virtual"]

T = TypeVar("T")


class DeadlockError(Exception):
    """Every task waits and no timer is set: in real time this would hang forever."""


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in virtual time, which starts at 0; returns its result.

    Guarantees:
        All ready tasks run before the clock moves. The clock moves exactly to the time of the next timer.

    Caveats:
        Only for code without sockets, subprocesses and threads: the loop does not wait for them.

    Raises:
        DeadlockError: all tasks wait for something that never happens.
    """
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


class _JumpingSelector(selectors.DefaultSelector):
    """Advances the clock by the timeout instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise DeadlockError("every task waits and no timer is set: expected an event, future or lock to be set")
        self.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """The event loop of `run_virtual`."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now
