"""One run, from its slot to its end.

| what happens | then |
|---|---|
| the framework answers | its answer is the result |
| it refuses connections, or answers that it did not start the run | released; the health check is repeated at once |
| the connection ends before the answer does | failed: the function may have run |
| the deadline passes, or a caller cancels | the result goes out at once; the framework is asked to cancel |
| the lease is lost, or not confirmed in time where runs must not overlap | the same without a result |
| a cancelled run ends within the grace period | its slot is free |
| it does not | the framework is stuck, and its container is restarted; the slot is taken until the connection ends |
| the framework offers no cancellation | the request is closed, which is what a server that streams notices |
| the framework becomes unhealthy while a run waits for its slot | released |
| the sidecar ends | requests are closed; leases run out, and the invocations run elsewhere |
"""

import asyncio
import logging
import math
from typing import Final

from attrs import frozen

from gpuruntime.dispatch.sidecar.contracts import Contract, FrameworkReply
from gpuruntime.dispatch.sidecar.durations import Durations
from gpuruntime.dispatch.sidecar.framework_client import (
    FrameworkClient,
    FrameworkLostError,
    NotSentError,
    ReplyTooLargeError,
)
from gpuruntime.dispatch.sidecar.framework_health import FrameworkHealth
from gpuruntime.dispatch.sidecar.held_runs import FORGET, RELEASE, HeldRun, HeldRuns, Stop
from gpuruntime.dispatch.sidecar.outcomes import Outcome, expired, failed, too_large
from gpuruntime.framework.server import NOT_STARTED

__all__ = ["Execution"]

_LOG = logging.getLogger(__name__)
_ERROR: Final = 400
_BAD_GATEWAY: Final = 502


@frozen(eq=False)
class Execution:
    """Executes runs, at most as many at a time as there are slots; the others wait in order."""

    contract: Contract
    framework: FrameworkClient
    health: FrameworkHealth
    runs: HeldRuns
    slots: asyncio.Semaphore
    durations: Durations
    can_cancel: bool
    """Whether the framework may offer `POST /cancel/<id>`."""

    async def execute(self, held: HeldRun) -> None:
        """Execute a run. Its end is recorded in the table of runs, whatever happens."""
        try:
            if not await self._take_slot(held):
                return
            try:
                await self._call(held)
            finally:
                self.slots.release()
        except Exception as error:  # noqa: BLE001 - one invocation must not end the others
            _LOG.exception("a run ended with an error of the sidecar", extra={"id": held.frame.id})
            self._end(held, failed(f"the sidecar could not run it: {type(error).__name__}: {error}", _BAD_GATEWAY))

    async def _take_slot(self, held: HeldRun) -> bool:
        """Wait for a slot; without one the run has ended."""
        if not self.slots.locked():
            await self.slots.acquire()
            return True
        waiting = asyncio.create_task(self.slots.acquire())
        try:
            stop = await self._stopped_first(held, waiting)
        except BaseException:
            waiting.cancel()
            raise
        if stop is None:
            return True
        if not waiting.cancel():
            self.slots.release()
        # The framework has not seen it, so another worker may still be in time.
        self._settle(held, RELEASE if stop.outcome is not None and not held.stop.done() else stop)
        return False

    async def _call(self, held: HeldRun) -> None:
        loop = asyncio.get_running_loop()
        held.started, held.is_sent = loop.time(), True
        remaining = None if held.deadline is None else max(0, math.ceil((held.deadline - held.started) * 1000))
        request = self.contract.request(held.frame, held.payload, remaining)
        held.payload = b""
        call = asyncio.create_task(self.framework.invoke(request, self.contract.most_bytes(held.frame)))
        del request
        try:
            stop = await self._stopped_first(held, call)
            if stop is None:
                await self._answered(held, call)
            else:
                self._settle(held, stop)
                await self._cancel(held.frame.id, call)
        finally:
            call.cancel()
            await asyncio.wait((call,))
            if not call.cancelled():
                # Marks the error as retrieved: the run has ended already.
                call.exception()

    async def _stopped_first(self, held: HeldRun, work: "asyncio.Task[object]") -> Stop | None:
        """Wait until the work is done (None), or the run has to stop before."""
        loop = asyncio.get_running_loop()
        while True:
            now = loop.time()
            lease_end = held.confirmed + self.durations.lease if held.frame.abort_on_lost_lease else math.inf
            deadline = math.inf if held.deadline is None else held.deadline
            if now >= deadline:
                return Stop(expired(held.frame.timeout_millis / 1000))
            if now >= lease_end:
                _LOG.warning("a lease was not confirmed in time, its run is stopped", extra={"id": held.frame.id})
                return FORGET
            first = min(deadline, lease_end)
            timeout = None if first == math.inf else first - now
            await asyncio.wait((work, held.stop), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return None
            if held.stop.done():
                return held.stop.result()

    async def _answered(self, held: HeldRun, call: "asyncio.Task[FrameworkReply]") -> None:
        try:
            reply = call.result()
        except NotSentError as error:
            self.health.lost(str(error))
            self.runs.release(held)
        except FrameworkLostError as error:
            self.health.lost(str(error))
            self._end(held, failed(str(error), _BAD_GATEWAY))
        except ReplyTooLargeError:
            self._end(held, too_large(held.frame.max_result_bytes or self.contract.most_bytes(held.frame)))
        else:
            if reply.status >= _ERROR and reply.header(NOT_STARTED).lower() == "true":
                self.health.check_soon()
                await asyncio.wait((held.stop,), timeout=self.durations.not_started)
                self._settle(held, held.stop.result() if held.stop.done() else RELEASE)
            else:
                self._end(held, self.contract.outcome(reply))

    def _settle(self, held: HeldRun, stop: Stop) -> None:
        if stop.is_release:
            self.runs.release(held)
        elif stop.outcome is None:
            self.runs.forget(held)
        else:
            self._end(held, stop.outcome)

    def _end(self, held: HeldRun, outcome: Outcome) -> None:
        self.runs.end(held, outcome, asyncio.get_running_loop().time())

    async def _cancel(self, id_: str, call: "asyncio.Task[FrameworkReply]") -> None:
        """Cancel a request whose answer is no longer wanted, and wait for its end where the framework takes part."""
        if not self.can_cancel:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + self.durations.cancel_grace
        if not await self.framework.cancel(id_):
            return
        await asyncio.wait((call,), timeout=max(0.0, end - loop.time()))
        if call.done():
            return
        self.health.mark_stuck(id_)
        try:
            await asyncio.wait((call,))
        finally:
            self.health.mark_ended(id_)
