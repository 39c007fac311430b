"""The reconciler of Operations: takes over those without a live owner, and deletes those that ended long ago."""

import asyncio
import logging
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Literal

from attrs import field, frozen

from gpuruntime.api.operation import Operation
from gpuruntime.control import Result, Store
from gpuruntime.kube import Client, ConflictError, NotFoundError, ServerTime
from gpuruntime.meta import ObjectKey, parse_timestamp
from gpuruntime.service.log_context import logged_for
from gpuruntime.service.operations.executor import OperationExecutor
from gpuruntime.service.operations.lease import drop_request
from gpuruntime.service.operations.record import LeaseTiming, Observations, has_ended

__all__ = [
    "DEFAULT_KEEP",
    "MOST_KEPT",
    "OperationReconciler",
    "Step",
    "finished_at",
    "step_after_end",
    "step_before_end",
    "takeover_delay",
]

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
class Step:
    """What the reconciler does with an Operation now, and after how many seconds it looks again; None: on a change."""

    action: Literal["wait", "take over", "drop request", "delete"]
    after: float | None = None


def step_before_end(operation: Operation, silent: float, timing: LeaseTiming, *, is_busy: bool) -> Step:
    """The next step for an Operation that has not ended, `silent` seconds after its last observed renewal.

    A process is busy if it executes the Operation itself, or executes none now. It looks again: an attempt that is
    interrupted causes no event.
    """
    left = takeover_delay(operation.status.attempts or 1, timing.lease) - silent
    if left > 0:
        return Step("wait", left)
    return Step("wait", timing.period) if is_busy else Step("take over", timing.lease)


def step_after_end(
    operation: Operation, silent: float, timing: LeaseTiming, keep: timedelta, now: datetime | None
) -> Step:
    """The next step for an ended Operation; `now` is the API server's time, None if it sends none.

    The owner drops the request right after the end. Other replicas do it only if the owner died before that. Without
    the server's time no Operation is deleted for its age.
    """
    if operation.spec.request is not None:
        left = timing.lease - silent
        return Step("wait", left) if left > 0 else Step("drop request")
    if now is None:
        return Step("wait", keep.total_seconds())
    left = (keep - (now - finished_at(operation, now))).total_seconds()
    return Step("wait", left) if left > 0 else Step("delete")


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
    executor: OperationExecutor
    keep: timedelta = DEFAULT_KEEP
    most: int = MOST_KEPT
    _observations: Observations = field(factory=Observations)
    _pruning: asyncio.Lock = field(factory=asyncio.Lock)

    async def reconcile(self, key: ObjectKey, _ctx: object) -> Result:
        operation = self.store.get(key)
        if operation is None or operation.metadata.deletion_timestamp is not None:
            self._observations.forget(key.name)
            return Result.done()
        executor, local = self.executor, self.executor.clock()
        silent = local - self._observations.last_renewal(operation, local)
        if has_ended(operation):
            await self._prune()
            step = step_after_end(operation, silent, executor.timing, self.keep, await self._server_time(operation))
        elif not executor.handles(operation.spec.type):
            step = Step("wait")
        else:
            is_busy = executor.is_running(key.name) or not executor.is_accepting
            step = step_before_end(operation, silent, executor.timing, is_busy=is_busy)
        match step.action:
            case "take over":
                await self._take_over(operation)
            case "drop request":
                await drop_request(self.client, operation)
            case "delete":
                await self._delete(operation)
        return Result.done() if step.after is None else Result.after(step.after)

    async def _take_over(self, operation: Operation) -> None:
        meta = operation.metadata
        with logged_for(operation):
            _LOG.info("taking over operation", extra={"operation": meta.name, "type": operation.spec.type})
        with suppress(ConflictError, NotFoundError):  # another replica was faster, and renews the lease
            await self.executor.take_over(operation)

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
