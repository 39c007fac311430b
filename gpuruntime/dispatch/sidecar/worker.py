"""What the worker offers to an activator, and what it does with each of its frames."""

import asyncio
import logging
from typing import Final

from gpuruntime.dispatch.protocol import (
    ActivatorFrame,
    Cancel,
    Committed,
    Confirmed,
    Draining,
    Heartbeat,
    Hello,
    ProtocolError,
    Release,
    Run,
    Welcome,
)
from gpuruntime.dispatch.sidecar.execution import Execution
from gpuruntime.dispatch.sidecar.framework_health import FrameworkHealth
from gpuruntime.dispatch.sidecar.held_runs import HeldRun, HeldRuns, Stop
from gpuruntime.dispatch.sidecar.outbox import Outbox
from gpuruntime.dispatch.sidecar.outcomes import cancelled

__all__ = ["Worker"]

_LOG = logging.getLogger(__name__)
_MOST_UNCOMMITTED_BYTES: Final = 64 * 1024 * 1024


class Worker:
    """The worker, from the activator's point of view.

    Guarantees:
        It never takes more runs than it has slots. While the framework is not healthy it offers none, and after `drain`
        it takes none.
    """

    def __init__(
        self,
        *,
        slots: int,
        revision: str,
        outbox: Outbox,
        runs: HeldRuns,
        health: FrameworkHealth,
        execution: Execution,
    ) -> None:
        self._slots = slots
        self._revision = revision
        self._outbox = outbox
        self._runs = runs
        self._health = health
        self._execution = execution
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_draining = False

    @property
    def offered_slots(self) -> int:
        """How many runs it takes at a time now."""
        return 0 if self._health.problem else self._slots

    @property
    def is_draining(self) -> bool:
        """Whether it takes no more runs, for ever."""
        return self._is_draining

    def hello(self) -> Hello:
        """The first frame of a connection."""
        return Hello(
            slots=self.offered_slots,
            revision=self._revision,
            draining=self._is_draining,
            leases=self._runs.leases,
        )

    def heartbeat(self) -> Heartbeat:
        """The leases that it has."""
        return Heartbeat(tuple(lease.lease for lease in self._runs.leases))

    def connected(self, welcome: Welcome) -> None:
        """An activator has the leases: those that are lost end, and results are sent again."""
        self._lose(welcome.lost_leases)
        now = asyncio.get_running_loop().time()
        self._runs.confirm((lease.lease for lease in self._runs.leases), now)
        self._runs.send_again()

    def health_changed(self) -> None:
        """The framework became healthy or unhealthy: runs that it has not seen go back."""
        if self._health.problem:
            self._runs.release_unsent()

    def handle(self, frame: ActivatorFrame, body: bytes) -> None:
        """Do what a frame asks for. A frame about a lease that is not here is of a run that has ended.

        Raises:
            ProtocolError: the frame has no place here.
        """
        if isinstance(frame, Run):
            self._take(frame, body)
        elif isinstance(frame, Confirmed):
            self._runs.confirm(frame.leases, asyncio.get_running_loop().time())
            self._lose(frame.lost)
        elif isinstance(frame, Committed):
            self._commit(frame)
        elif isinstance(frame, Cancel):
            held = self._runs.find(frame.lease)
            if held is not None and held.is_running:
                held.ask_to_stop(Stop(cancelled(frame.reason)))
        else:
            raise ProtocolError(f"expected no frame {frame.TYPE} here")

    async def drain(self, seconds: float) -> bool:
        """Take no more runs, and wait until all have ended and are committed; False if that takes longer."""
        if not self._is_draining:
            _LOG.info("draining", extra={"running": self._runs.running})
            self._is_draining = True
            self._outbox.put(Draining())
            self._runs.release_unsent()
        try:
            async with asyncio.timeout(seconds):
                await self._runs.until_idle()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """End all runs, and close their requests."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _take(self, frame: Run, payload: bytes) -> None:
        now = asyncio.get_running_loop().time()
        if self._runs.take_over(frame, now):
            _LOG.warning("an invocation was delivered again while it is here", extra={"id": frame.id})
            return
        reason = self._refusal()
        if reason:
            _LOG.info("a run goes back to the queue", extra={"id": frame.id, "reason": reason})
            self._outbox.put(Release(frame.lease, frame.id))
            return
        held = HeldRun(frame, payload, now)
        self._runs.add(held)
        task = asyncio.create_task(self._execution.execute(held), name=f"run {frame.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refusal(self) -> str:
        if self._is_draining:
            return "the worker drains"
        if self._health.problem:
            return self._health.problem
        if self._runs.running >= self._slots:
            return f"all {self._slots} slots are taken"
        if self._runs.uncommitted_bytes > _MOST_UNCOMMITTED_BYTES:
            return "too many results wait to be committed"
        return ""

    def _commit(self, frame: Committed) -> None:
        held = self._runs.find(frame.lease)
        if held is None:
            return
        if not frame.won:
            _LOG.info("the invocation had ended otherwise, its result was dropped", extra={"id": frame.id})
        self._runs.forget(held)

    def _lose(self, leases: tuple[str, ...]) -> None:
        for lease in leases:
            held = self._runs.find(lease)
            if held is not None:
                _LOG.warning("a lease is lost, its run is stopped", extra={"id": held.frame.id})
                self._runs.forget(held)
