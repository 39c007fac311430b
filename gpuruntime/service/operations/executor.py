"""Executing Operations in this process: each attempt has a lease and a task of its own.

The first attempt is made by the process that created the Operation: the create acquires the lease. Every later one is
made by a replica that took the lease over. From there on all attempts are the same::

    handler ──> result stored, or evident ──> caller answered ──> cleanup ──> end stored ──> request dropped
       ├── changed nothing (ServiceError) ──> Operation deleted ──> caller answered
       ├── can never continue (OperationFailedError) ──> end stored, with the error ──> caller answered
       └── anything else: interrupted ──> another attempt, when the lease has expired

What happens if the process dies, or is stopped and its grace of 5 s is over:

    before the Operation is stored      nothing is stored. The caller sends its request again
    before the handler has changed      another replica takes the Operation over when its lease has expired. Its
    anything                            attempt finds nothing, and does the work
    in the middle of the work           the same; it finds what was done (`OperationLease.earlier`), and does the rest
    after the work, before the end      the same; it finds all of the work, and repeats the cleanup
    before a refused request is         the same; it is refused again, or succeeds if the reason is gone
    deleted
    after the end, before the request   any replica drops the request, one lease duration later
    is dropped

What happens if it does not die:

    the caller goes away                the attempt continues
    the process is suspended, or cut    its lease lets no write pass `LeaseTiming.renew` after the last renewal. Others
    off from the API server             take over after `LeaseTiming.lease`. What it sends too late is refused, because
                                        the record has changed
    the API server is down              the caller gets an error after a few seconds. The attempt may be interrupted
    two replicas take over at once      both write the status in the version that they read: one gets a conflict
    the Operation is ended by the       the attempt notices at its next status write, and stops
    deletion of what it created

What a duplicate of the request receives meanwhile is in `results`.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from attrs import field, frozen

from gpuruntime.aio import seconds_since_boot
from gpuruntime.api.operation import Operation, OperationFailure
from gpuruntime.control import write_status
from gpuruntime.kube import AlreadyExistsError, Client, KubeError, NotFoundError, Transport
from gpuruntime.meta import DecodeError
from gpuruntime.service.errors import NotFinishedError, NotRunningError, OperationFailedError, ServiceError
from gpuruntime.service.log_context import logged_for
from gpuruntime.service.operations.background import BackgroundThrottle
from gpuruntime.service.operations.lease import LeaseLostError, OperationLease, Outcome
from gpuruntime.service.operations.metrics import OperationCounters, OperationEnd
from gpuruntime.service.operations.record import CREATED_BY, LeaseTiming, taken_over

__all__ = ["OperationExecutor", "OperationHandler", "Submitted"]

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_GRACE_SECONDS: Final = 5.0


class OperationHandler(Protocol):
    """Executes Operations of one type."""

    @property
    def type(self) -> str: ...

    async def run(self, lease: OperationLease) -> Outcome:
        """Do the work, or the rest of it. Write with `lease.client` only.

        All attempts are the same: look for what an earlier one left with `lease.earlier`, and do what is missing.
        The outcome is stored before a caller receives it, unless it is evident.

        Raises:
            ServiceError: nothing was changed; the Operation is withdrawn.
            OperationFailedError: the Operation has failed.
            KubeError: this attempt was interrupted; another one follows.
        """


@frozen
class Submitted:
    """A recorded request: its Operation as it was read, and whether the request had been sent before.

    `outcome` is that of the attempt in this process; None if there is none.
    """

    operation: Operation
    is_replay: bool
    outcome: asyncio.Future[Outcome] | None = field(default=None, repr=False)


@frozen
class _Attempt:
    lease: OperationLease
    task: asyncio.Task[None]


class OperationExecutor:
    """Executes Operations with the handlers that this process has.

    Guarantees:
        - An attempt does not depend on a caller: it continues when the caller goes away.
        - At most one attempt at an Operation writes at a time, in all processes: see `OperationLease`.

    Assumptions:
        `run` runs while Operations are executed. `identity` is unique to this process.
    """

    def __init__(
        self,
        transport: Transport,
        handlers: Sequence[OperationHandler],
        *,
        field_manager: str,
        identity: str,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self.timing = timing or LeaseTiming()
        self.clock = clock
        self.throttle = BackgroundThrottle(self.timing.renew / 2)
        self._handlers = {handler.type: handler for handler in handlers}
        self.counters = OperationCounters(self._handlers)
        self._transport = transport
        self._field_manager = field_manager
        self._identity = identity
        # A write that takes longer than the renew deadline would leave no time to work.
        self._client = Client(transport, field_manager=field_manager, timeout=self.timing.renew)
        self._attempts: dict[str, _Attempt] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.is_accepting = False
        """Whether this process starts attempts now."""

    async def run(self) -> None:
        """Let attempts start until cancelled; running ones then have a shutdown grace of 5 s."""
        self.is_accepting = True
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.is_accepting = False
            try:
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=_GRACE_SECONDS)
                if self._attempts:
                    _LOG.warning("leaving operations to other replicas", extra={"operations": sorted(self._attempts)})
            finally:
                for task in self._tasks:
                    task.cancel()
                if self._tasks:
                    await asyncio.wait(self._tasks)

    def ensure_accepting(self, operation_id: str) -> None:
        """Return if this process starts attempts.

        Raises:
            NotRunningError: it does not.
        """
        if not self.is_accepting:
            raise NotRunningError(f"operation {operation_id} was not started: this process starts or stops; try again")

    def handles(self, type_: str) -> bool:
        """Whether this process has a handler for Operations of this type."""
        return type_ in self._handlers

    def is_running(self, name: str) -> bool:
        """Whether this process executes the Operation of this name."""
        return name in self._attempts

    def outcome_of(self, operation: Operation) -> asyncio.Future[Outcome] | None:
        """The outcome of the attempt in this process; None if there is none."""
        attempt = self._attempts.get(operation.metadata.name)
        is_it = attempt is not None and attempt.lease.operation.metadata.uid == operation.metadata.uid
        return attempt.lease.outcome if attempt is not None and is_it else None

    def new_owner(self) -> str:
        """A lease owner: unique to one attempt, in all processes."""
        return f"{self._identity}/{uuid.uuid4().hex[:8]}"

    def create(self, wanted: Operation) -> "asyncio.Task[Submitted | None]":
        """Create an Operation and start its first attempt; its creator is a `new_owner`.

        The task is not the caller's: if that is cancelled after the create, the Operation is executed all the same.
        It returns the request as it is recorded, by this create or before; None if that record is gone again. It is
        cancelled if the process stops.

        Raises:
            NotRunningError: this process starts no attempts.
        """
        self.ensure_accepting(wanted.spec.operation_id)
        return self._spawn(self._create(wanted), f"record of {wanted.metadata.name}")

    async def take_over(self, operation: Operation) -> None:
        """Acquire the expired lease of an Operation, and work on it until it ends or the attempt is interrupted.

        Raises:
            ConflictError: another replica acquired the lease first.
            NotFoundError: the Operation is gone.
            NotRunningError: this process starts no attempts.
            KubeError: the API server is not available.
        """
        self.ensure_accepting(operation.spec.operation_id)
        owner, began = self.new_owner(), self.clock()
        status = taken_over(operation.status, owner, self._transport.server_time.now())
        written = await write_status(self._client, operation, status)
        self.counters.taken_over[operation.spec.type] += 1
        attempt = self._start(written or operation, owner, began)
        await asyncio.wait([attempt.task])

    async def execute(self, lease: OperationLease) -> None:
        """Work on the Operation until it ends or this attempt is interrupted; then another attempt follows later.

        Guarantees: the lease's `outcome` is completed. Raises nothing but cancellation.
        """
        about = {
            "operation": lease.operation.metadata.name,
            "type": lease.operation.spec.type,
            "attempt": lease.attempt,
        }
        renewing = asyncio.create_task(lease.renew(), name=f"lease on {lease.operation.metadata.name}")
        clock = asyncio.get_running_loop().time
        began = clock()
        end: OperationEnd = "interrupted"
        try:
            end = await self._to_the_end(lease)
        except KubeError as error:
            _LOG.warning("operation interrupted", extra=about | {"error": str(error)})
            lease.fail(error)
        except (LeaseLostError, DecodeError) as error:
            # Not an error for the caller: another replica finishes the Operation.
            _LOG.warning("operation interrupted", extra=about | {"error": str(error)})
        except Exception as error:  # noqa: BLE001 - one operation must not end the process that works on others
            _LOG.exception("operation interrupted by an unexpected error", extra=about)
            lease.fail(error)
        finally:
            self.counters.ended(lease.operation.spec.type, end, clock() - began)
            _LOG.info("operation attempt ended", extra=about | {"end": end})
            lease.fail(NotFinishedError(f"operation {lease.operation.spec.operation_id} will be finished later"))
            lease.close()
            renewing.cancel()
            await asyncio.wait([renewing])

    async def _to_the_end(self, lease: OperationLease) -> OperationEnd:
        try:
            outcome = await self._handlers[lease.operation.spec.type].run(lease)
        except ServiceError as error:
            await lease.withdraw()
            lease.fail(error)
            return "withdrawn"
        except OperationFailedError as error:
            await lease.end(error=OperationFailure(error.code, str(error)))
            lease.fail(error)
            return "failed"
        if not outcome.is_evident:
            await lease.record(outcome)
        lease.resolve(outcome)
        async with self.throttle.background():
            if outcome.cleanup is not None:
                await outcome.cleanup()
            await lease.end(result=outcome.result)
        return "succeeded"

    async def _create(self, wanted: Operation) -> Submitted | None:
        owner, began = wanted.metadata.annotations[CREATED_BY], self.clock()
        try:
            operation = await self._client.create(wanted)
        except AlreadyExistsError:
            try:
                operation = await self._client.get(Operation, wanted.metadata.name, wanted.metadata.namespace)
            except NotFoundError:
                return None
            # A retried create may meet the Operation that its first try stored.
            if operation.metadata.annotations.get(CREATED_BY) != owner:
                return Submitted(operation, is_replay=True, outcome=self.outcome_of(operation))
        return Submitted(operation, is_replay=False, outcome=self._start(operation, owner, began).lease.outcome)

    def _start(self, operation: Operation, owner: str, began: float) -> _Attempt:
        self.ensure_accepting(operation.spec.operation_id)
        lease = OperationLease(
            operation,
            self._transport,
            owner=owner,
            began=began,
            field_manager=self._field_manager,
            timing=self.timing,
            clock=self.clock,
        )
        name = operation.metadata.name
        with logged_for(operation):
            task = self._spawn(self.execute(lease), f"operation {name}")
        attempt = self._attempts[name] = _Attempt(lease, task)
        task.add_done_callback(lambda _: self._attempts.pop(name) if self._attempts.get(name) is attempt else None)
        return attempt

    def _spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Retrieves the exception: the caller that waited may have gone away.
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return task
