"""The faults that are switched on now, and which requests they meet."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from attrs import frozen

from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.faults.definitions import DieAfterWrites, DieAtOnce, DieBeforeWrite, Fault, RequestFault
from gpuruntime.testing.faults.exchanges import Call, is_write
from gpuruntime.testing.faults.request_pattern import RequestPattern, is_watch, resource_of

__all__ = ["ActiveFault", "FaultRegistry", "Subject", "WritesLeft"]


@frozen
class Subject:
    """The request that faults are looked up for; `call` is its place among all, where somebody counts them."""

    method: str
    path: str
    query: Mapping[str, str]
    call: Call | None = None

    @property
    def watch(self) -> bool:
        return is_watch(self.query)

    @property
    def write(self) -> bool:
        return is_write(self.method, resource_of(self.path), dry_run="dryRun" in self.query)


class ActiveFault:
    """A fault that was switched on, until `lift()` or the end of its `with` block."""

    def __init__(self, fault: Fault, pattern: RequestPattern, call: Call | None, changes: ChangeSignal) -> None:
        self.fault = fault
        self.pattern = pattern
        self.call = call
        self._changes = changes
        self._count = 0
        self._lifted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lift()

    @property
    def count(self) -> int:
        """How often it has been done so far: to requests, or to events where it is about events."""
        return self._count

    @property
    def lifted(self) -> bool:
        return self._lifted

    @property
    def pending(self) -> bool:
        """Whether it is to be done to the next request that matches."""
        times = self.fault.times if isinstance(self.fault, RequestFault) else None
        return not self._lifted and (times is None or self._count < times)

    def lift(self) -> None:
        """Switch it off. What it delays or holds goes on; what it has broken stays broken."""
        self._lifted = True
        self._changes.announce()

    async def met(self, count: int = 1) -> None:
        """Wait until it has been done `count` times."""
        await self._changes.until(lambda: self._count >= count)

    async def until_lifted(self) -> None:
        await self._changes.until(lambda: self._lifted)

    def note(self) -> None:
        """It has been done once more."""
        self._count += 1
        self._changes.announce()


class WritesLeft:
    """How many writes there may still be before nothing passes, see `DieAfterWrites` and `DieBeforeWrite`.

    Whoever sends a write holds `turn` until the server has answered: that write may turn out to be the last.
    """

    def __init__(self, active: ActiveFault) -> None:
        self.active = active
        self.turn = asyncio.Lock()
        match active.fault:
            case DieAfterWrites(count):
                self._left = count
            case DieBeforeWrite(number):
                self._left = number - 1
            case _:
                self._left = 0
        self._exhausted = isinstance(active.fault, DieAtOnce)

    @property
    def exhausted(self) -> bool:
        return self._exhausted and not self.active.lifted

    def refused(self) -> bool:
        """A write has come; gives whether it is the one that must not get through."""
        self._exhausted = self._exhausted or self._left == 0
        return self.exhausted

    def accepted(self) -> bool:
        """The server has accepted a write; gives whether it was the last."""
        self._left -= 1
        self._exhausted = self._left == 0 and isinstance(self.active.fault, DieAfterWrites)
        return self.exhausted


class FaultRegistry:
    """The faults in the order in which they were injected; `changes` tells of each that comes, is done, or goes."""

    def __init__(self) -> None:
        self.changes = ChangeSignal()
        self._active: list[ActiveFault] = []
        self._writes_left: list[WritesLeft] = []

    def inject(self, fault: Fault, pattern: RequestPattern, call: Call | None = None) -> ActiveFault:
        active = ActiveFault(fault, pattern, call, self.changes)
        self._active = [*(other for other in self._active if not other.lifted), active]
        if isinstance(fault, DieAfterWrites | DieBeforeWrite | DieAtOnce):
            self._writes_left.append(WritesLeft(active))
        self.changes.announce()
        return active

    def meeting(self, subject: Subject) -> list[ActiveFault]:
        """The faults that are to be done to this request."""
        return [active for active in self._active if active.pending and _matches(active, subject)]

    def writes_left(self, subject: Subject) -> list[WritesLeft]:
        """The counts that this request takes part in."""
        if not subject.write:
            return []
        return [left for left in self._writes_left if left.active.pending and _matches(left.active, subject)]

    @property
    def dead(self) -> bool:
        """Whether nothing passes any more, see `DieAfterWrites`."""
        return any(left.exhausted for left in self._writes_left)


def _matches(active: ActiveFault, subject: Subject) -> bool:
    return active.call in (None, subject.call) and active.pattern.matches(subject.method, subject.path, subject.query)
