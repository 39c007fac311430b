"""The runs that a sidecar holds: each from its `Run` frame until its result is committed, or its lease is gone.

::

    take ──> running ──> ended, not yet committed ──> forgotten
                │    └─> to be released ────────────> forgotten
                └── lost: stopped and forgotten, without a result
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import evolve, frozen

from gpuruntime.dispatch.protocol import HeldLease, Release, Run, RunResult
from gpuruntime.dispatch.sidecar.outbox import Outbox
from gpuruntime.dispatch.sidecar.outcomes import Outcome, result_frame

__all__ = ["FORGET", "RELEASE", "HeldRun", "HeldRuns", "Stop"]


@frozen
class Stop:
    """Why a run is stopped: with an outcome, with a release, or, with neither, because its lease is gone."""

    outcome: Outcome | None = None
    is_release: bool = False


RELEASE: Final = Stop(is_release=True)
FORGET: Final = Stop()


class HeldRun:
    """One run. Times are those of the event loop."""

    def __init__(self, frame: Run, payload: bytes, now: float) -> None:
        self.frame = frame
        self.payload = payload
        self.arrived = now
        self.started = now
        self.confirmed = now
        """When the lease was last confirmed."""
        self.is_sent = False
        """Whether the framework may have seen it."""
        self.is_forgotten = False
        self.is_released = False
        self.result: tuple[RunResult, bytes] | None = None
        self.stop: asyncio.Future[Stop] = asyncio.get_running_loop().create_future()

    @property
    def is_running(self) -> bool:
        """Whether its end is still open, so that it takes a slot of the activator."""
        return self.result is None and not self.is_forgotten and not self.is_released

    @property
    def deadline(self) -> float | None:
        """When it expires; None without a limit."""
        return self.arrived + self.frame.timeout_millis / 1000 if self.frame.timeout_millis else None

    def ask_to_stop(self, stop: Stop) -> None:
        """Stop it if its end is still open. The first reason counts."""
        if not self.stop.done():
            self.stop.set_result(stop)


class HeldRuns:
    """The table of held runs.

    Guarantees:
        A lease is in the table once, and an invocation too: a second delivery of an invocation that is here takes over
        what is here, and is not executed. A result stays until it is committed.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._by_lease: dict[str, HeldRun] = {}
        self._by_id: dict[str, HeldRun] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(tuple(self._by_lease.values()))

    def find(self, lease: str) -> HeldRun | None:
        """The run of a lease."""
        return self._by_lease.get(lease)

    @property
    def running(self) -> int:
        """How many runs have not ended."""
        return sum(held.is_running for held in self._by_lease.values())

    @property
    def uncommitted_bytes(self) -> int:
        """The size of the results that wait to be committed."""
        return sum(len(held.result[1]) for held in self._by_lease.values() if held.result is not None)

    @property
    def leases(self) -> tuple[HeldLease, ...]:
        """All that is held, for `Hello`."""
        return tuple(HeldLease(held.frame.lease, held.frame.id, held.frame.attempt) for held in self)

    def add(self, held: HeldRun) -> None:
        """Hold a run that is about to start."""
        self._by_lease[held.frame.lease] = held
        self._by_id[held.frame.id] = held
        self._idle.clear()

    def take_over(self, frame: Run, now: float) -> bool:
        """Whether the invocation is here already, under this lease or under an earlier one, which is replaced."""
        held = self._by_id.get(frame.id)
        if held is None:
            return False
        if held.frame.lease != frame.lease:
            del self._by_lease[held.frame.lease]
            # It goes on under its first deadline: it is the same execution.
            held.frame = evolve(held.frame, lease=frame.lease, attempt=frame.attempt)
            self._by_lease[frame.lease] = held
            if held.result is not None:
                result, body = held.result
                held.result = evolve(result, lease=frame.lease, attempt=frame.attempt), body
        held.confirmed = now
        self._send(held)
        return True

    def end(self, held: HeldRun, outcome: Outcome, now: float) -> None:
        """A run has ended: its result is sent now, and after each reconnect."""
        if held.is_running:
            millis = max(0, round((now - held.started) * 1000))
            held.result, held.payload = result_frame(held.frame, outcome, millis), b""
            self._send(held)

    def release(self, held: HeldRun) -> None:
        """A run was not started: another worker may have it."""
        if held.is_running:
            held.is_released, held.payload = True, b""
            self._send(held)

    def forget(self, held: HeldRun) -> None:
        """The lease of a run is gone, or its result is committed."""
        held.is_forgotten = True
        held.ask_to_stop(FORGET)
        if self._by_lease.get(held.frame.lease) is held:
            del self._by_lease[held.frame.lease]
            del self._by_id[held.frame.id]
        if not self._by_lease:
            self._idle.set()

    def confirm(self, leases: Iterable[str], now: float) -> None:
        """Leases were extended."""
        for lease in leases:
            held = self._by_lease.get(lease)
            if held is not None:
                held.confirmed = now

    def release_unsent(self) -> None:
        """Release the runs that wait for a slot: the framework has not seen them."""
        for held in self:
            if held.is_running and not held.is_sent:
                self.release(held)
                held.ask_to_stop(RELEASE)

    def send_again(self) -> None:
        """A new connection: all results that are not committed, and releases."""
        for held in self:
            self._send(held)

    async def until_idle(self) -> None:
        """Wait until nothing is held."""
        await self._idle.wait()

    def _send(self, held: HeldRun) -> None:
        if held.result is not None:
            self._outbox.put(*held.result)
        elif held.is_released and self._outbox.put(Release(held.frame.lease, held.frame.id)):
            # No answer follows. If the frame is lost the lease runs out, and the invocation goes back as well.
            self.forget(held)
