"""One Operation in the hand of one process: who may write on its behalf, and until when.

A process that was paused, cut off or starved does not hear that another one took its Operation over. Its own clock
tells it: no write begins after the local deadline, and one that is under way is given up there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from attrs import field, frozen

from gpuruntime.api.operation import Operation, OperationFailure, OperationProgress, OperationResult, OperationStatus
from gpuruntime.control import write_status
from gpuruntime.control.leadership.fence import Fence, seconds_since_boot
from gpuruntime.control.leadership.fenced_transport import FencedTransport
from gpuruntime.kube import Client, ConflictError, KubeError, MergePatch, NotFoundError, Transport
from gpuruntime.meta import DecodeError, Struct, TypedObject, decode, thaw
from gpuruntime.service.errors import FailedForGoodError
from gpuruntime.service.operations.background import BackgroundThrottle
from gpuruntime.service.operations.record import (
    LeaseTiming,
    answered,
    ended,
    has_ended,
    is_held_by,
    progressed,
    renewed,
)

__all__ = ["EndedError", "LostHoldError", "OperationLease", "Outcome", "drop_request"]


S = TypeVar("S", bound=Struct)
_LOG = logging.getLogger(__name__)
_TELL_SECONDS: Final = 1.0


@frozen
class Outcome:
    """What came of an Operation: how it is written down, and the object itself where somebody has it at hand.

    `rest` is what is left to do that changes nothing of this. It may be done twice, and by another process. An outcome
    is evident if every replica finds it in what was made, see `operation_answers`.
    """

    result: OperationResult
    object: TypedObject | None = None
    rest: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)
    is_evident: bool = False


class LostHoldError(Exception):
    """The Operation is not in our hand any more: another process took it over, or somebody deleted it."""


class EndedError(LostHoldError):
    """The Operation has ended: nobody is to begin anything more on its behalf."""


class OperationLease:
    """Keeps an Operation in our hand, and tells in it how far the work is.

    Guarantees:
        - `client` writes for `timing.renew` seconds from when the hold, or its last renewal that succeeded, began, and
          not after that. Others wait for `timing.lease` seconds without a sign of life. No clocks are compared.
        - What is written into the Operation replaces what was read, or fails: nobody's hold is overwritten.

    Assumptions:
        `began` is when, by `clock`, the write by which the Operation became ours was begun.
    """

    def __init__(
        self,
        operation: Operation,
        transport: Transport,
        *,
        owner: str,
        began: float,
        field_manager: str,
        timing: LeaseTiming,
        clock: Callable[[], float] = seconds_since_boot,
        precedence: BackgroundThrottle | None = None,
    ) -> None:
        self._operation = operation
        self._owner = owner
        self._timing = timing
        self.now = transport.server_time.now
        self._fence = Fence(clock)
        self._fence.open_until(began + timing.renew)
        self._writing = asyncio.Lock()
        self._told = began
        self._progress = operation.status.progress
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        # Whoever waited for it may have gone.
        self.outcome.add_done_callback(lambda outcome: outcome.cancelled() or outcome.exception())
        self.attempt = operation.status.attempts or 1
        self.precedence = precedence or BackgroundThrottle(timing.renew / 2)
        self.client = Client(FencedTransport(transport, self._fence), field_manager=field_manager)

    @property
    def operation(self) -> Operation:
        """The Operation as it was last read or written."""
        return self._operation

    @property
    def is_resumed(self) -> bool:
        """Whether somebody worked on the Operation before, and may have got anywhere."""
        return self.attempt > 1

    def announce(self, outcome: Outcome) -> None:
        """Tell who waits for the `outcome` what it is: it is certain, though there may be more to do."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def disappoint(self, error: Exception) -> None:
        """Tell who waits for the `outcome` that there is none, or none yet."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    async def keep(self) -> None:
        """Renew the hold, until cancelled or until it is lost; from then on nothing is written any more."""
        while self._fence.remaining() > 0:
            await asyncio.sleep(self._timing.period)
            if self.outcome.done() and self._fence.remaining() > self._timing.period:
                continue  # Little is left to do. Signs of life would cost more than that.
            try:
                await self._renew()
            except EndedError:
                return
            except LostHoldError as error:
                _LOG.warning("lost the hold on an operation", extra={"error": str(error)})
                return
            except KubeError as error:
                # There may be time to try again: the fence decides.
                _LOG.warning("cannot renew the hold on an operation", extra={"error": str(error)})

    def request(self, kind: type[S]) -> S:
        """What is asked for.

        Raises:
            FailedForGoodError: what is stored is nothing of this kind, and never will be.
        """
        try:
            return decode(kind, thaw(self._operation.spec.request or {}))
        except DecodeError as error:
            said = f"operation {self._operation.spec.operation_id} has a request that cannot be read: {error}"
            raise FailedForGoodError("unreadable_request", said) from error

    async def confirm(self) -> None:
        """Pass if the Operation is still in our hand and has not ended.

        Raises:
            LostHoldError: it is not, or it has.
            KubeError: that is not known.
        """
        await self._renew()

    async def report(self, done: int, total: int, *, at_once: bool = False) -> None:
        """Tell how far the work is: `at_once`, or if the last word of us is a second old, with this call; else with a
        later one.
        """
        self._progress = OperationProgress(done, total)
        if at_once or self._fence.now() - self._told >= _TELL_SECONDS:
            await self._renew()

    async def record(self, outcome: Outcome) -> None:
        """Write down what came of it, and that this is the end if nothing is left to do: before a caller hears of it.

        Whoever deletes what was made ends the Operation with the same result; then there is nothing to write.
        """
        with suppress(EndedError):
            if outcome.rest is None:
                await self._write(lambda status: ended(status, self.now(), result=outcome.result, error=None))
            else:
                await self._write(lambda status: answered(status, outcome.result, self.now()))

    async def end(self, *, result: OperationResult | None = None, error: OperationFailure | None = None) -> None:
        """Write down what came of it, unless that is done, and drop the request, which may hold secrets.

        A process that dies between the two leaves a request behind that any worker drops.
        """
        with suppress(EndedError):
            await self._write(lambda status: ended(status, self.now(), result=result, error=error))
        if self._operation.spec.request is not None:
            await drop_request(self.client, self._operation)

    async def withdraw(self) -> None:
        """Delete the Operation, so that its operationID can be used again: nothing came of it."""
        meta = self._operation.metadata
        with suppress(NotFoundError):
            await self.client.delete(Operation, meta.name, meta.namespace, uid=meta.uid)

    def release(self) -> None:
        """Write nothing more. Others take over when they have seen no sign of life for long enough."""
        self._fence.shut()

    async def _renew(self) -> None:
        started = self._fence.now()
        self._told = started
        await self._write(lambda status: status)
        # An answer that comes after the fence ran out cannot mend it: those who write have seen it shut.
        if self._fence.remaining() > 0:
            self._fence.open_until(started + self._timing.renew)

    async def _write(self, change: Callable[[OperationStatus], OperationStatus]) -> None:
        async with self._writing:
            try:
                await self._write_once(change)
            except ConflictError:
                await self._read_again()
                await self._write_once(change)

    async def _write_once(self, change: Callable[[OperationStatus], OperationStatus]) -> None:
        if has_ended(self._operation):
            raise EndedError(f"operation {self._operation.spec.operation_id} has ended")
        now = self.now()
        alive = progressed(renewed(self._operation.status, self._owner, now), self._progress, now)
        try:
            written = await write_status(self.client, self._operation, change(alive))
        except NotFoundError as error:
            raise self._lost("was deleted") from error
        self._operation = written or self._operation

    async def _read_again(self) -> None:
        meta = self._operation.metadata
        try:
            found = await self.client.get(Operation, meta.name, meta.namespace)
        except NotFoundError as error:
            raise self._lost("was deleted") from error
        if found.metadata.uid != meta.uid or not is_held_by(found, self._owner):
            raise self._lost("is in other hands")
        self._operation = found

    def _lost(self, why: str) -> LostHoldError:
        self._fence.shut()
        return LostHoldError(f"operation {self._operation.spec.operation_id} {why}")


async def drop_request(client: Client, operation: Operation) -> None:
    """Forget the request of an Operation that has ended; a newer state of it is left to whoever sees that."""
    meta = operation.metadata
    patch = MergePatch({"spec": {"request": None}}).locked(meta.resource_version)
    with suppress(ConflictError, NotFoundError):
        await client.patch(Operation, meta.name, meta.namespace, patch)
