"""The reconciler of Operations: takes over those without a live owner, and deletes those that ended long ago."""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from attrs import field, frozen

from gpuruntime.api.operation import Operation
from gpuruntime.control import Result, Store
from gpuruntime.kube import Client, ConflictError, NotFoundError, ServerTime
from gpuruntime.meta import ObjectKey, parse_timestamp
from gpuruntime.service.log_context import logged_for
from gpuruntime.service.operations.lease import drop_request
from gpuruntime.service.operations.record import Observations, has_ended
from gpuruntime.service.operations.submit import Operations
from gpuruntime.service.operations.worker import OperationWorker

__all__ = ["DEFAULT_KEEP", "MOST_KEPT", "OperationReconciler", "finished_at", "takeover_delay"]

_LOG = logging.getLogger(__name__)
DEFAULT_KEEP: Final = timedelta(days=1)
"""How long an ended Operation is kept, and a replay recognised."""
MOST_KEPT: Final = 20_000
"""Maximum number of ended Operations; those that ended first are deleted first."""
_MAX_DELAY_SECONDS: Final = 600.0
_PRUNED_SHARE: Final = 0.05
# Each replica knows the server's time to a second or two.
_CLOCK_ERROR: Final = timedelta(minutes=1)


def takeover_delay(attempts: int, lease: float) -> float:
    """Seconds without a renewal until the next attempt: the lease duration after the first one, then twice as long each
    time, up to ten minutes. An Operation that never succeeds is not retried all the time.
    """
    doubled = lease * 2.0 ** min(attempts - 1, 16)
    return max(lease, min(doubled, _MAX_DELAY_SECONDS))


@frozen
class OperationReconciler:
    """Reconciles one Operation.

    Guarantees:
        - An Operation whose owner does not renew its lease is taken over by the first replica that notices. Renewals
          are observed by the local clock alone.
        - The request of an ended Operation is dropped, and the Operation is deleted `keep` after its end. From then on
          its operationID is free, and a request that is sent again with it is executed again.
          Times are those of the API server: the wall clock of a replica does not matter, see `finished_at`.
        - About `most` ended Operations are kept, the newest.
        - After an interrupted attempt the next one starts when the lease of the first has expired, and not sooner.
          Further attempts wait longer, see `takeover_delay`.

    Runs in every replica; concurrent runs are safe.
    """

    store: Store[Operation]
    client: Client
    time: ServerTime
    operations: Operations
    worker: OperationWorker
    keep: timedelta = DEFAULT_KEEP
    most: int = MOST_KEPT
    _observations: Observations = field(factory=Observations)
    _pruning: asyncio.Lock = field(factory=asyncio.Lock)

    async def reconcile(self, key: ObjectKey, _ctx: object) -> Result:
        operation = self.store.get(key)
        if operation is None or operation.metadata.deletion_timestamp is not None:
            self._observations.forget(key.name)
            return Result.done()
        local = self.operations.clock()
        silent = local - self._observations.last_renewal(operation, local)
        lease = self.operations.timing.lease
        if has_ended(operation):
            await self._prune()
            return await self._clean_up(operation, lease - silent)
        if not self.worker.handles(operation.spec.type):
            return Result.done()
        left = takeover_delay(operation.status.attempts or 1, lease) - silent
        if left > 0 or self.operations.is_running(key.name):
            # Also requeues what this process executes: an interrupted attempt causes no event.
            return Result.after(left if left > 0 else self.operations.timing.period)
        with logged_for(operation):
            _LOG.info("taking over operation", extra={"operation": key.name, "type": operation.spec.type})
        with suppress(ConflictError, NotFoundError):  # another replica was faster, and renews the lease
            await self.operations.take_over(operation)
        return Result.after(lease)

    async def _clean_up(self, operation: Operation, left: float) -> Result:
        if operation.spec.request is not None:
            # The owner drops the request right after the end; here only if it died before that.
            if left > 0:
                return Result.after(left)
            await drop_request(self.client, operation)
        now = await self._server_time(operation)
        if now is None:
            return Result.after(self.keep.total_seconds())
        overdue = (now - finished_at(operation, now) - self.keep).total_seconds()
        if overdue < 0:
            return Result.after(-overdue)
        await self._delete(operation)
        return Result.done()

    async def _server_time(self, operation: Operation) -> datetime | None:
        """The API server's time; None if it sends none: then no Operation is deleted for its age."""
        if self.time.known is None:
            # Any response carries the time.
            with suppress(NotFoundError):
                await self.client.get(Operation, operation.metadata.name, operation.metadata.namespace)
        return self.time.known

    async def _prune(self) -> None:
        """Delete the oldest ended Operations beyond `most`, and 5 % more, so that not every end sorts all of them."""
        if len(self.store) <= self.most or self._pruning.locked():
            return
        async with self._pruning:
            now = self.time.now()
            over = sorted(filter(has_ended, self.store.list().items), key=lambda operation: finished_at(operation, now))
            if len(over) > self.most:
                for operation in over[: len(over) - self.most + int(self.most * _PRUNED_SHARE)]:
                    await self._delete(operation)

    async def _delete(self, operation: Operation) -> None:
        meta = operation.metadata
        with suppress(ConflictError, NotFoundError):  # another replica was faster
            await self.client.delete(
                Operation, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )


def finished_at(operation: Operation, now: datetime) -> datetime:
    """When an Operation ended, by the server's clock, which shows `now`.

    A replica writes the end. One before the creation, which the server writes, or in the future comes from a wrong
    clock: then the creation time counts.
    """
    created = parse_timestamp(operation.metadata.creation_timestamp or "")
    written = operation.status.finished_at
    finished = created if written is None else parse_timestamp(written)
    return finished if created <= finished <= now + _CLOCK_ERROR else created
