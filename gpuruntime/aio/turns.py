"""Many tasks with something to do at the same moment, let on a few at a time: the loop serves others meanwhile."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

__all__ = ["Turns"]

# In one pass uvloop accepts one connection, and what is read and written of others moves by one step.
_AT_ONCE: Final = 2


class Turns:
    """A line in which tasks wait for their turn.

    Guarantees:
        In one pass of the loop at most `at_once` of them go on, those first who came first. What the loop has to do
        otherwise comes in between.
    """

    def __init__(self, at_once: int = _AT_ONCE) -> None:
        self._at_once = at_once
        self._line: deque[asyncio.Future[None]] = deque()
        self._is_called = False

    async def next(self) -> None:
        """Returns when it is the caller's turn, which lasts until its next await."""
        mine = asyncio.get_running_loop().create_future()
        self.line_up((mine,))
        await mine

    def line_up(self, waiting: Iterable["asyncio.Future[None]"]) -> None:
        """Put futures at the end of the line; each is given its result in its turn."""
        self._line.extend(waiting)
        if self._line and not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._let_on)

    def _let_on(self) -> None:
        self._is_called = False
        going = 0
        while self._line and going < self._at_once:
            first = self._line.popleft()
            if not first.done():
                first.set_result(None)
                going += 1
        self.line_up(())
