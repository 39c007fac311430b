"""What every replica does for the Operations of all: take over what nobody works on, forget what is long ended."""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from attrs import field, frozen

from gpuruntime.api.operation import Operation
from gpuruntime.control import Result, Store
from gpuruntime.kube import Client, ConflictError, NotFoundError
from gpuruntime.kube.transport.server_time import ServerTime
from gpuruntime.meta import ObjectKey, parse_timestamp
from gpuruntime.service.log_context import logged_for
from gpuruntime.service.operations.lease import drop_request
from gpuruntime.service.operations.operations import Operations
from gpuruntime.service.operations.record import Observations, has_ended
from gpuruntime.service.operations.worker import OperationRunner

__all__ = ["DEFAULT_KEEP", "MOST_KEPT", "OperationUpkeep", "end_of", "pause_before"]

_LOG = logging.getLogger(__name__)
DEFAULT_KEEP: Final = timedelta(days=1)
"""How long an ended Operation is kept: for so long a replay is known for one."""
MOST_KEPT: Final = 20_000
"""How many ended Operations are kept at most; those that ended first go first."""
_LONGEST_PAUSE_SECONDS: Final = 600.0
_TRIMMED_SHARE: Final = 0.05
# Each replica knows the server's time to a second or two.
_INACCURACY: Final = timedelta(minutes=1)


def pause_before(attempts: int, lease: float) -> float:
    """How many seconds without a sign of life pass until the next attempt, after so many: the lease at first, then
    twice as long each time, up to ten minutes. What never succeeds is not tried all the time.
    """
    doubled = lease * 2.0 ** min(attempts - 1, 16)
    return max(lease, min(doubled, _LONGEST_PAUSE_SECONDS))


@frozen
class OperationUpkeep:
    """Looks after one Operation.

    Guarantees:
        - One that nobody gave a sign of life for is taken over, by whoever notices first. Signs of life are watched by
          the local clock alone.
        - The request of an ended one is dropped, and the whole Operation is deleted `keep` after its end. From then on
          its operationID is free, and a request that is sent again under it is carried out again.
          Times are those of the API server: no wall clock of a replica counts, see `end_of`.
        - Of the ended ones not many more than `most` are kept, the newest.
        - A failed attempt is followed by the next one when the hold of the first has run out, and not sooner. Those
          that follow wait longer, see `pause_before`.

    Run it in every replica; several at once do no harm.
    """

    store: Store[Operation]
    client: Client
    time: ServerTime
    operations: Operations
    runner: OperationRunner
    keep: timedelta = DEFAULT_KEEP
    most: int = MOST_KEPT
    _observations: Observations = field(factory=Observations)
    _trimming: asyncio.Lock = field(factory=asyncio.Lock)

    async def reconcile(self, key: ObjectKey, _ctx: object) -> Result:
        operation = self.store.get(key)
        if operation is None or operation.metadata.deletion_timestamp is not None:
            self._observations.forget(key.name)
            return Result.done()
        local = self.operations.clock()
        silent = local - self._observations.since(operation, local)
        lease = self.operations.timing.lease
        if has_ended(operation):
            await self._trim()
            return await self._tidy(operation, lease - silent)
        if not self.runner.knows(operation.spec.type):
            return Result.done()
        left = pause_before(operation.status.attempts or 1, lease) - silent
        if left > 0 or self.operations.is_running(key.name):
            # Also what this process works on: if it gives up, there is no event to tell.
            return Result.after(left if left > 0 else self.operations.timing.period)
        with logged_for(operation):
            _LOG.info("taking over an operation", extra={"operation": key.name, "type": operation.spec.type})
        with suppress(ConflictError, NotFoundError):  # somebody else was faster, and gives a sign of life
            await self.operations.take_over(operation)
        return Result.after(lease)

    async def _tidy(self, operation: Operation, left: float) -> Result:
        if operation.spec.request is not None:
            # Whoever ended it drops the request right after that: only what it left behind is ours.
            if left > 0:
                return Result.after(left)
            await drop_request(self.client, operation)
        now = await self._time(operation)
        if now is None:
            return Result.after(self.keep.total_seconds())
        overdue = (now - end_of(operation, now) - self.keep).total_seconds()
        if overdue < 0:
            return Result.after(-overdue)
        await self._forget(operation)
        return Result.done()

    async def _time(self, operation: Operation) -> datetime | None:
        """The server's time. None is a server that does not tell it: nothing is forgotten by its age then."""
        if self.time.known is None:
            # Any answer tells it.
            with suppress(NotFoundError):
                await self.client.get(Operation, operation.metadata.name, operation.metadata.namespace)
        return self.time.known

    async def _trim(self) -> None:
        """Forget some more than what is too much, so that not every end of an Operation has to look at all of them."""
        if len(self.store) <= self.most or self._trimming.locked():
            return
        async with self._trimming:
            now = self.time.now()
            over = sorted(filter(has_ended, self.store.list().items), key=lambda operation: end_of(operation, now))
            if len(over) > self.most:
                for operation in over[: len(over) - self.most + int(self.most * _TRIMMED_SHARE)]:
                    await self._forget(operation)

    async def _forget(self, operation: Operation) -> None:
        meta = operation.metadata
        with suppress(ConflictError, NotFoundError):  # somebody else was faster
            await self.client.delete(
                Operation, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )


def end_of(operation: Operation, now: datetime) -> datetime:
    """When an Operation ended, by the server's clock, where it is `now`.

    The end is written down by a replica. One before the creation, which the server writes down, or one that is yet to
    come was told by a wrong clock: then the creation counts.
    """
    created = parse_timestamp(operation.metadata.creation_timestamp or "")
    told = operation.status.finished_at
    finished = created if told is None else parse_timestamp(told)
    return finished if created <= finished <= now + _INACCURACY else created
