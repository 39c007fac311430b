"""The active faults of a proxy, and which requests they apply to."""

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from attrs import frozen

from gpuruntime.testing.change_signal import ChangeSignal
from gpuruntime.testing.faults.definitions import DieAfterWrites, DieAtOnce, DieBeforeWrite, Fault, RequestFault
from gpuruntime.testing.faults.exchanges import Call, is_write
from gpuruntime.testing.faults.request_pattern import RequestPattern, is_watch, resource_of

__all__ = ["ActiveFault", "FaultRegistry", "ProxiedRequest", "WriteBudget"]


@frozen
class ProxiedRequest:
    """The parts of a request that faults are matched against; `call` is None for uncounted requests."""

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
    """An injected fault, active until `lift()` or the end of its `with` block."""

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
        """How often it has taken effect so far: on requests, or on events if it is a fault of events."""
        return self._count

    @property
    def lifted(self) -> bool:
        return self._lifted

    @property
    def pending(self) -> bool:
        """Whether it applies to the next matching request."""
        times = self.fault.times if isinstance(self.fault, RequestFault) else None
        return not self._lifted and (times is None or self._count < times)

    def lift(self) -> None:
        """Deactivate it. Delayed and held requests and events proceed; dropped ones stay dropped."""
        self._lifted = True
        self._changes.announce()

    async def triggered(self, count: int = 1) -> None:
        """Wait until it has taken effect `count` times."""
        await self._changes.until(lambda: self._count >= count)

    async def until_lifted(self) -> None:
        await self._changes.until(lambda: self._lifted)

    def record(self) -> None:
        """Count one more effect."""
        self._count += 1
        self._changes.announce()


class WriteBudget:
    """How many more writes pass before the client is cut off, see `DieAfterWrites` and `DieBeforeWrite`.

    A write holds `lock` until the server has answered, because it may turn out to be the last.
    """

    def __init__(self, active: ActiveFault) -> None:
        self.active = active
        self.lock = asyncio.Lock()
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
        """Register an incoming write; returns whether it must not reach the server."""
        self._exhausted = self._exhausted or self._left == 0
        return self.exhausted

    def accepted(self) -> bool:
        """Register a write that the server accepted; returns whether it was the last."""
        self._left -= 1
        self._exhausted = self._left == 0 and isinstance(self.active.fault, DieAfterWrites)
        return self.exhausted


class FaultRegistry:
    """The faults in the order of injection; each injection, effect and lift is announced on `changes`."""

    def __init__(self) -> None:
        self.changes = ChangeSignal()
        self._active: list[ActiveFault] = []
        self._budgets: list[WriteBudget] = []

    def inject(self, fault: Fault, pattern: RequestPattern, call: Call | None = None) -> ActiveFault:
        active = ActiveFault(fault, pattern, call, self.changes)
        self._active = [*(other for other in self._active if not other.lifted), active]
        if isinstance(fault, DieAfterWrites | DieBeforeWrite | DieAtOnce):
            self._budgets.append(WriteBudget(active))
        self.changes.announce()
        return active

    def matching(self, request: ProxiedRequest) -> list[ActiveFault]:
        """The faults that apply to this request."""
        return [active for active in self._active if active.pending and _matches(active, request)]

    def budgets_of(self, request: ProxiedRequest) -> list[WriteBudget]:
        """The budgets that this request counts against."""
        if not request.write:
            return []
        return [budget for budget in self._budgets if budget.active.pending and _matches(budget.active, request)]

    @property
    def dead(self) -> bool:
        """Whether the client is cut off, see `DieAfterWrites`."""
        return any(budget.exhausted for budget in self._budgets)


def _matches(active: ActiveFault, request: ProxiedRequest) -> bool:
    return active.call in (None, request.call) and active.pattern.matches(request.method, request.path, request.query)
