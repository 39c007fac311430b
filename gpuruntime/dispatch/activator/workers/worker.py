"""A connected worker: its slots, what it holds, and what is sent to it."""

import asyncio
from collections import deque
from typing import Final

from attrs import define, field

from gpuruntime.api.invocations import QueuedInvocation
from gpuruntime.dispatch.activator.leases.signing import Lease
from gpuruntime.dispatch.activator.runs.limits import RunLimits
from gpuruntime.dispatch.activator.workers.identity import WorkerIdentity
from gpuruntime.dispatch.protocol import ActivatorFrame, encode_frame

__all__ = ["HeldRun", "Worker"]

_SOON_SECONDS: Final = 0.01


@define(eq=False)
class HeldRun:
    """A run of a connected worker. Times are of the loop's clock.

    `queued` is None for a run that the worker brought from another activator: it is read when it is needed.
    """

    lease: Lease
    worker: "Worker"
    limits: RunLimits
    began: float
    queued: QueuedInvocation | None = None
    started_at: str = ""
    checked: float = 0.0
    """When it was last known that there was no result."""
    recorded: float = 0.0
    """When the record of the run was last written."""
    unlisted: int = 0
    """Heartbeats since its begin that did not name it."""
    has_ended: bool = False
    """Whether another end than this run's is known: it was cancelled."""
    has_result: bool = False
    """Whether the worker has sent its result, which is being committed."""

    @property
    def is_adopted(self) -> bool:
        return self.queued is None


@define(eq=False)
class Worker:
    """A worker, from its Hello to the loss of its connection.

    A slot is free when the result of its run has come. A worker with as many uncommitted results as it has slots gets
    nothing more: NATS does not take results, and their bytes are kept on both sides.
    """

    identity: WorkerIdentity
    slots: int
    revision: str = ""
    is_draining: bool = False
    is_open: bool = True
    """Whether its connection lives."""
    was_cached: bool = False
    """Whether the cache of pods had its pod when it connected."""
    rests: bool = False
    """Whether it has just given a run back: it gets nothing for a moment."""
    runs: dict[str, HeldRun] = field(factory=dict)
    """By the lease."""
    running: int = 0
    committing: int = 0
    heard: float = 0.0
    unsent: deque[bytes] = field(factory=deque)
    has_unsent: asyncio.Event = field(factory=asyncio.Event)

    @property
    def free(self) -> int:
        """Runs that it can take now."""
        if self.is_draining or self.rests or not self.is_open:
            return 0
        return max(0, min(self.slots - self.running, 2 * self.slots - self.running - self.committing))

    def begin(self, run: HeldRun) -> None:
        """Count a run that was sent to it, or that it brought."""
        self.runs[run.lease.token] = run
        self.running += 1

    def finish(self, run: HeldRun) -> None:
        """Count a result that came."""
        run.has_result = True
        self.running -= 1
        self.committing += 1

    def forget(self, run: HeldRun) -> None:
        """A run that is committed, released or lost."""
        if self.runs.pop(run.lease.token, None) is None:
            return
        if run.has_result:
            self.committing -= 1
        else:
            self.running -= 1

    def send(self, frame: ActivatorFrame, body: bytes = b"") -> None:
        """Queue a frame; what waits is bounded by the slots. A worker that does not read loses its connection."""
        if self.is_open:
            self.unsent.append(encode_frame(frame, body))
            self.has_unsent.set()

    def send_soon(self, frame: ActivatorFrame) -> None:
        """Queue a frame that goes out with the next one, or a moment later: it spares a system call."""
        if self.is_open:
            if not self.unsent:
                asyncio.get_running_loop().call_later(_SOON_SECONDS, self.has_unsent.set)
            self.unsent.append(encode_frame(frame))

    def close(self) -> None:
        """Have its connection closed."""
        self.is_open = False
        self.has_unsent.set()
