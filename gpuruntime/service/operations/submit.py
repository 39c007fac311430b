"""Idempotent writes: a request is executed once, however often and to whichever replica it is sent.

::

    submit ──creates the Operation──> execute ──> ended, with a result or an error
       │              │                   └─────> withdrawn, because nothing was changed: the operationID is free again
       │              └──process dies──> another replica takes over, see `controller`
       └──finds the Operation──> of another request?  refused
                                 has a result?        the same result, see `results`
                                 failed?              executed again
                                 running?             waits until the result is known
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import evolve, field, frozen

from gpuruntime.aio import seconds_since_boot
from gpuruntime.api.operation import FAILED, SUCCEEDED, Operation, OperationResult, operation_name
from gpuruntime.control import Informer, write_status
from gpuruntime.kube import AlreadyExistsError, Client, ConflictError, NotFoundError, Transport
from gpuruntime.meta import ObjectKey, Struct, TypedObject
from gpuruntime.service.errors import NotFinishedError, NotRunningError, OperationConflictError, OperationFailedError
from gpuruntime.service.log_context import current_request_id, logged_for
from gpuruntime.service.operations.background import BackgroundThrottle
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.liveness import CircuitBreaker, Liveness
from gpuruntime.service.operations.record import (
    CREATED_BY,
    LeaseTiming,
    has_ended,
    new_operation,
    request_hash,
    taken_over,
)
from gpuruntime.service.operations.results import Evidence, OperationResults
from gpuruntime.service.operations.worker import OperationWorker

__all__ = ["DEFAULT_WAIT_SECONDS", "Operations", "Performed", "Submitted"]

_LOG = logging.getLogger(__name__)
DEFAULT_WAIT_SECONDS: Final = 20.0
"""How long a caller waits for the result of its request by default."""
_POLL_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 5.0
_ATTEMPTS: Final = 5


@frozen
class Submitted:
    """A recorded request: its Operation as it was read, and whether the request had been sent before."""

    operation: Operation
    is_replay: bool
    outcome: asyncio.Future[Outcome] | None = field(default=None, repr=False)


@frozen
class Performed:
    """A request that was executed, now or before.

    `object` is the written object if this call executed the request; after a replay it is None, because the object may
    have changed since.
    """

    operation: Operation
    result: OperationResult
    is_replay: bool
    object: TypedObject | None = None


@frozen
class _Running:
    """An Operation that this process executes."""

    lease: OperationLease
    task: asyncio.Task[None]


class _WithdrawnError(Exception):
    """The awaited Operation is gone: nothing was changed."""


class Operations:
    """Records requests as Operations, and executes those that were sent to this process.

    Guarantees:
        - Of requests with one operationID, one is executed; across replicas too, because the API server stores one
          Operation of a name.
        - A submitted request continues when the caller goes away, and is taken over when the process dies.
        - While the API server is down, a caller gets an error after a few seconds (`Liveness`); its request continues.
        - A request that changed nothing leaves no Operation behind.

    Assumptions:
        `run` runs while requests are submitted. `identity` is unique to this process.
    """

    def __init__(
        self,
        transport: Transport,
        informer: Informer[Operation],
        worker: OperationWorker,
        *,
        namespace: str,
        field_manager: str,
        identity: str,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = seconds_since_boot,
        liveness: Liveness | None = None,
        evidence: Sequence[Evidence[Any]] = (),
    ) -> None:
        self.timing = timing or LeaseTiming()
        self.namespace = namespace
        self.clock = clock
        self._transport = transport
        self._liveness = liveness or Liveness(transport)
        self._informer = informer
        self._worker = worker
        self._field_manager = field_manager
        self._identity = identity
        # A create that takes longer than the renew deadline would leave no time to work.
        self._client = Client(transport, field_manager=field_manager, timeout=self.timing.renew)
        # For requests that a caller waits for.
        self._caller_client = Client(
            CircuitBreaker(self._liveness), field_manager=field_manager, timeout=self.timing.renew
        )
        self._results = OperationResults(informer, {each.type: each for each in evidence})
        self._throttle = BackgroundThrottle(self.timing.renew / 2)
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, _Running] = {}

    async def run(self) -> None:
        """Own the tasks of submitted requests until cancelled; running ones then have a shutdown grace of 5 s."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None
                if self._running:
                    tasks_left = [running.task for running in self._running.values()]
                    await asyncio.wait(tasks_left, timeout=_GRACE_SECONDS)
                if self._running:
                    _LOG.warning("leaving operations to other replicas", extra={"operations": sorted(self._running)})

    @property
    def is_accepting(self) -> bool:
        """Whether this process accepts requests."""
        return self._tasks is not None

    def is_running(self, name: str) -> bool:
        """Whether this process executes the Operation of this name."""
        return name in self._running

    def as_known(self, operation: Operation) -> Operation:
        """The Operation with its result, if that is known and not stored yet."""
        result = None if has_ended(operation) else self._result(operation)
        if result is None:
            return operation
        return evolve(operation, status=evolve(operation.status, state=SUCCEEDED, result=result))

    async def find(self, operation_id: str) -> Operation | None:
        """Live read of the Operation of an operationID; None if there is none."""
        try:
            return await self._caller_client.get(Operation, operation_name(operation_id), self.namespace)
        except NotFoundError:
            return None

    async def submit(
        self, operation_id: str, type_: str, request: Struct, *, stored: Struct | None = None
    ) -> Submitted:
        """Record a request, and start its execution unless it was recorded before.

        `request` is what the caller asks for, normalised; its hash identifies a replay. `stored` is what the handler
        needs, if that is more.

        Raises:
            OperationConflictError: the operationID was used for another request.
            NotRunningError: this process does not accept requests.
            KubeError: the API server is not available; the request may be recorded.
        """
        digest = request_hash(type_, request)
        for _ in range(_ATTEMPTS):
            submitted = await self._record(operation_id, type_, digest, stored or request)
            if submitted is not None:
                return submitted
        raise NotFinishedError(f"operation {operation_id} is created and deleted repeatedly; try again later")

    async def perform(
        self,
        operation_id: str,
        type_: str,
        request: Struct,
        *,
        stored: Struct | None = None,
        within: float = DEFAULT_WAIT_SECONDS,
    ) -> Performed:
        """Record a request and wait up to `within` seconds for its result.

        Raises:
            ServiceError: nothing was changed; or it is not finished, see NotFinishedError.
            KubeError: the API server is not available; the request may be recorded.
        """
        deadline = self.clock() + within
        while True:
            with self._throttle.foreground():
                submitted = await self.submit(operation_id, type_, request, stored=stored)
                if submitted.outcome is not None:
                    await self._liveness.wait(submitted.outcome, deadline - self.clock())
            with suppress(_WithdrawnError):
                outcome = await self._outcome(submitted, deadline)
                return Performed(submitted.operation, outcome.result, submitted.is_replay, outcome.object)

    async def take_over(self, operation: Operation) -> None:
        """Acquire the expired lease of an Operation, and work on it until it ends or the attempt is interrupted.

        Raises:
            ConflictError: another replica acquired the lease first.
            NotFoundError: the Operation is gone.
            KubeError: the API server is not available.
        """
        owner, began = self._new_owner(), self.clock()
        status = taken_over(operation.status, owner, self._transport.server_time.now())
        written = await write_status(self._client, operation, status)
        self._worker.counters.taken_over[operation.spec.type] += 1
        running = self._start(written or operation, owner, began)
        await asyncio.wait([running.task])

    async def _record(self, operation_id: str, type_: str, digest: str, stored: Struct) -> Submitted | None:
        """The recorded request; None if another Operation of this operationID was deleted meanwhile."""
        if self._tasks is None:
            raise NotRunningError(f"operation {operation_id} was not accepted: this process starts or stops; try again")
        key = ObjectKey(self.namespace, operation_name(operation_id))
        if key in self._informer.store and (known := await self.find(operation_id)) is not None:
            return await self._replayed(known, type_, digest)
        owner = self._new_owner()
        named = {"namespace": self.namespace, "created_by": owner, "request_id": current_request_id.get()}
        wanted = new_operation(operation_id, type_, digest, stored, **named)
        recorded: asyncio.Future[Submitted | Operation | None] = asyncio.get_running_loop().create_future()
        # Retrieves the exception: the caller that waited may have gone away.
        recorded.add_done_callback(lambda ended: ended.exception())
        if self._tasks is None:
            raise self._stopping(wanted)
        # Not in the caller's task: if that is cancelled after the create, this process would not execute the Operation.
        self._tasks.create_task(self._create(wanted, owner, recorded), name=f"record of {key.name}")
        await self._liveness.wait(recorded)
        found = recorded.result()
        return await self._replayed(found, type_, digest) if isinstance(found, Operation) else found

    async def _create(
        self, wanted: Operation, owner: str, recorded: "asyncio.Future[Submitted | Operation | None]"
    ) -> None:
        """Create the Operation, start its execution, and complete `recorded`."""
        try:
            recorded.set_result(await self._created(wanted, owner))
        except Exception as error:  # noqa: BLE001 - the error is the caller's; requests of others continue
            recorded.set_exception(error)
        finally:
            if not recorded.done():
                recorded.set_exception(self._stopping(wanted))

    async def _created(self, wanted: Operation, owner: str) -> Submitted | Operation | None:
        """The started request; or the Operation that existed already; or None if that is gone again."""
        began, meta = self.clock(), wanted.metadata
        try:
            operation = await self._client.create(wanted)
        except AlreadyExistsError:
            try:
                operation = await self._client.get(Operation, meta.name, meta.namespace)
            except NotFoundError:
                return None
            # A retried create may meet the Operation that its first try stored.
            if operation.metadata.annotations.get(CREATED_BY) != owner:
                return operation
        running = self._start(operation, owner, began)
        return Submitted(operation, is_replay=False, outcome=running.lease.outcome)

    async def _replayed(self, found: Operation, type_: str, digest: str) -> Submitted | None:
        if (found.spec.type, found.spec.request_hash) != (type_, digest):
            raise OperationConflictError(
                f"operationID {found.spec.operation_id!r} was used for another request "
                f"({found.spec.type}); send the same request, or choose another operationID"
            )
        if found.status.state != FAILED:
            return Submitted(found, is_replay=True)
        # Failed halfway: a caller that sends it again wants the rest. Names of created objects follow from the request,
        # so a new Operation continues where the failed one stopped.
        meta = found.metadata
        with suppress(NotFoundError, ConflictError):
            await self._caller_client.delete(
                Operation, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        return None

    async def _outcome(self, submitted: Submitted, deadline: float) -> Outcome:
        current = submitted.operation
        operation_id = current.spec.operation_id
        late = NotFinishedError(f"operation {operation_id} is still running; retry with the same operationID")
        if submitted.outcome is not None:
            if not submitted.outcome.done():
                raise late
            return submitted.outcome.result()
        # Waits on the caches. Live reads are for caches that lag; they become rarer, to spare a slow API server.
        poll = _POLL_SECONDS
        while (result := self._result(current)) is None:
            if current.status.error is not None:
                raise OperationFailedError(current.status.error.code, current.status.error.message)
            left, own = deadline - self.clock(), self._own(current)
            if left <= 0 or (own is not None and not await self._liveness.wait(own, left)):
                raise late
            # Two callers of this process receive the same, also if nothing was changed.
            current = await self._later(current, min(left, poll)) if own is None else _with_outcome(current, own)
            poll *= 2
        return Outcome(result)

    async def _later(self, operation: Operation, within: float) -> Operation:
        """The Operation, with its result if there is one, when the caches show its end or after `within` seconds.

        Raises:
            _WithdrawnError: it is gone.
        """
        await self._results.wait(operation, within)
        if self._result(operation) is not None:
            return operation
        # The caches may lag behind the server.
        found = await self.find(operation.spec.operation_id)
        if found is None or found.metadata.uid != operation.metadata.uid:
            raise _WithdrawnError
        return await self._results.completed(self._caller_client, found)

    def _result(self, operation: Operation) -> OperationResult | None:
        """The result of an Operation if it is certain; it may not be stored yet."""
        own = self._own(operation)
        if own is not None and own.done() and own.exception() is None:
            return own.result().result
        return self._results.known(operation)

    def _own(self, operation: Operation) -> asyncio.Future[Outcome] | None:
        """The outcome of an Operation that this process executes; None if it does not."""
        running = self._running.get(operation.metadata.name)
        if running is None or running.lease.operation.metadata.uid != operation.metadata.uid:
            return None
        return running.lease.outcome

    def _start(self, operation: Operation, owner: str, began: float) -> _Running:
        if self._tasks is None:
            raise self._stopping(operation)
        lease = OperationLease(
            operation,
            self._transport,
            owner=owner,
            began=began,
            field_manager=self._field_manager,
            timing=self.timing,
            clock=self.clock,
            throttle=self._throttle,
        )
        name = operation.metadata.name
        with logged_for(operation):
            task = self._tasks.create_task(self._worker.execute(lease), name=f"operation {name}")
        running = self._running[name] = _Running(lease, task)
        task.add_done_callback(lambda _: self._running.pop(name) if self._running.get(name) is running else None)
        return running

    def _stopping(self, operation: Operation) -> NotRunningError:
        return NotRunningError(f"operation {operation.spec.operation_id} is left to other replicas: this process stops")

    def _new_owner(self) -> str:
        """A lease owner: unique to this attempt, in all processes."""
        return f"{self._identity}/{uuid.uuid4().hex[:8]}"


def _with_outcome(operation: Operation, outcome: asyncio.Future[Outcome]) -> Operation:
    return evolve(operation, status=evolve(operation.status, result=outcome.result().result))
