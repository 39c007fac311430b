"""The lease on one Operation: which process may write on its behalf, and until when.

A process that was suspended, partitioned or starved does not learn that another one took its Operation over. So it
relies on its own clock: no write starts after the local deadline, and a write in flight is cancelled there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

from attrs import field, frozen

from gpuruntime.aio import seconds_since_boot
from gpuruntime.api.operation import Operation, OperationFailure, OperationProgress, OperationResult, OperationStatus
from gpuruntime.control import write_status
from gpuruntime.control.leadership import Fence, FencedTransport
from gpuruntime.kube import Client, ConflictError, KubeError, MergePatch, NotFoundError, Transport
from gpuruntime.meta import DecodeError, Struct, TypedObject, decode, thaw
from gpuruntime.service.errors import UNREADABLE_REQUEST, OperationFailedError
from gpuruntime.service.operations.record import (
    LeaseTiming,
    ended,
    has_ended,
    is_owned_by,
    renewed,
    with_progress,
    with_result,
)

__all__ = ["LeaseLostError", "OperationEndedError", "OperationLease", "Outcome", "drop_request"]


S = TypeVar("S", bound=Struct)
T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_PROGRESS_SECONDS: Final = 1.0


@frozen
class Outcome:
    """Outcome of an Operation: its result as the record stores it, and the written object where it is at hand.

    `cleanup` is the remaining work that does not change the result. It may run twice, and in another process. An
    outcome is evident if every replica can derive it from the object that was created, see `Evidence`.
    """

    result: OperationResult
    object: TypedObject | None = None
    cleanup: Callable[[], Awaitable[None]] | None = field(default=None, repr=False)
    is_evident: bool = False


class LeaseLostError(Exception):
    """This process does not hold the lease any more: the Operation was taken over, or deleted."""


class OperationEndedError(LeaseLostError):
    """The Operation has ended: nothing more may be started on its behalf."""


class OperationLease:
    """The lease of one attempt at an Operation: renews it, and writes the Operation's status.

    Guarantees:
        - `client` writes until `timing.renew` seconds after the start of the last successful renewal (at first: of the
          write that acquired the lease), and not later. Other replicas wait for `timing.lease` seconds without a
          renewal. No clocks are compared.
        - A status write replaces the version that was read, or fails: the lease of another owner is never overwritten.

    Assumptions:
        `began` is the time, by `clock`, at which the write that acquired the lease was started.
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
    ) -> None:
        self._operation = operation
        self._owner = owner
        self._timing = timing
        self.now = transport.server_time.now
        self._fence = Fence(clock)
        self._fence.open_until(began + timing.renew)
        self._writing = asyncio.Lock()
        self._renewed_at = began
        self._progress = operation.status.progress
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        # Retrieves the exception: the caller that waited may have gone away.
        self.outcome.add_done_callback(lambda outcome: outcome.cancelled() or outcome.exception())
        self.attempt = operation.status.attempts or 1
        self.client = Client(FencedTransport(transport, self._fence), field_manager=field_manager)

    @property
    def operation(self) -> Operation:
        """The Operation as it was last read or written."""
        return self._operation

    def resolve(self, outcome: Outcome) -> None:
        """Complete the `outcome` future: the result is certain, though cleanup may follow."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: Exception) -> None:
        """Complete the `outcome` future with an error: this attempt has no result. The Operation is not written."""
        if not self.outcome.done():
            self.outcome.set_exception(error)

    async def renew(self) -> None:
        """Renew the lease until cancelled or lost; after that nothing is written any more."""
        while self._fence.remaining() > 0:
            await asyncio.sleep(self._timing.period)
            if self.outcome.done() and self._fence.remaining() > self._timing.period:
                continue  # Only cleanup is left: it is shorter than the lease, and a renewal costs a write.
            try:
                await self._renew_once()
            except OperationEndedError:
                return
            except LeaseLostError as error:
                _LOG.warning("operation lease lost", extra={"error": str(error)})
                return
            except KubeError as error:
                # There may be time to try again: the fence decides.
                _LOG.warning("operation lease not renewed", extra={"error": str(error)})

    def request(self, kind: type[S]) -> S:
        """The stored request.

        Raises:
            OperationFailedError: the stored request is not of this kind, and never will be.
        """
        try:
            return decode(kind, thaw(self._operation.spec.request or {}))
        except DecodeError as error:
            message = f"operation {self._operation.spec.operation_id}: cannot decode spec.request: {error}"
            raise OperationFailedError(UNREADABLE_REQUEST, message) from error

    async def earlier(self, find: Callable[[], Awaitable[T]], *, is_seen: bool = False) -> T | None:
        """What an earlier attempt left, by `find`.

        A first attempt has no earlier one, so it reads nothing: None, unless `is_seen`, which is for other signs that
        there may be something, such as an object in a cache.
        """
        return await find() if is_seen or self.attempt > 1 else None

    async def confirm(self) -> None:
        """Return if no other request has ended this Operation. A later attempt renews its lease for that.

        A first attempt writes nothing: only the deletion of an object that it created could end it.

        Raises:
            LeaseLostError: the Operation has ended, or the lease is lost.
            KubeError: unknown.
        """
        if self.attempt > 1:
            await self._renew_once()

    async def report_progress(self, done: int, total: int, *, immediately: bool = False) -> None:
        """Store the progress: now if `immediately` or if the last renewal is a second old, else with a later write."""
        self._progress = OperationProgress(done, total)
        if immediately or self._fence.now() - self._renewed_at >= _PROGRESS_SECONDS:
            await self._renew_once()

    async def record(self, outcome: Outcome) -> None:
        """Store the result before the caller receives it; ends the Operation if there is no cleanup.

        A request that deletes the created object ends this Operation with the same result; then nothing is written.
        """
        with suppress(OperationEndedError):
            if outcome.cleanup is None:
                await self._write(lambda status: ended(status, self.now(), result=outcome.result, error=None))
            else:
                await self._write(lambda status: with_result(status, outcome.result, self.now()))

    async def end(self, *, result: OperationResult | None = None, error: OperationFailure | None = None) -> None:
        """End the Operation, unless it has ended, and drop its request, which may contain secrets.

        If the process dies between the two writes, any replica drops the request.
        """
        with suppress(OperationEndedError):
            await self._write(lambda status: ended(status, self.now(), result=result, error=error))
        if self._operation.spec.request is not None:
            await drop_request(self.client, self._operation)

    async def withdraw(self) -> None:
        """Delete the Operation, which changed nothing, so that its operationID is free again."""
        meta = self._operation.metadata
        with suppress(NotFoundError):
            await self.client.delete(Operation, meta.name, meta.namespace, uid=meta.uid)

    def close(self) -> None:
        """Stop writing. Other replicas take over when the lease has expired."""
        self._fence.shut()

    async def _renew_once(self) -> None:
        started = self._fence.now()
        self._renewed_at = started
        await self._write(lambda status: status)
        # A response after the local deadline must not reopen the fence: writers have already seen it closed.
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
            raise OperationEndedError(f"operation {self._operation.spec.operation_id} has ended")
        now = self.now()
        current = with_progress(renewed(self._operation.status, self._owner, now), self._progress, now)
        try:
            written = await write_status(self.client, self._operation, change(current))
        except NotFoundError as error:
            raise self._lost("was deleted") from error
        self._operation = written or self._operation

    async def _read_again(self) -> None:
        meta = self._operation.metadata
        try:
            found = await self.client.get(Operation, meta.name, meta.namespace)
        except NotFoundError as error:
            raise self._lost("was deleted") from error
        if found.metadata.uid != meta.uid or not is_owned_by(found, self._owner):
            raise self._lost("was taken over by another owner")
        self._operation = found

    def _lost(self, why: str) -> LeaseLostError:
        self._fence.shut()
        return LeaseLostError(f"operation {self._operation.spec.operation_id} {why}")


async def drop_request(client: Client, operation: Operation) -> None:
    """Remove the request of an ended Operation in the version that was read; a newer version is left unchanged."""
    meta = operation.metadata
    patch = MergePatch({"spec": {"request": None}}).locked(meta.resource_version)
    with suppress(ConflictError, NotFoundError):
        await client.patch(Operation, meta.name, meta.namespace, patch)
