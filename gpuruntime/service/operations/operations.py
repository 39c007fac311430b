"""Operations: every write request happens once, whoever sends it how often to whichever replica.

::

    submit ──creates the Operation──> work ──> ended, with a result or an error
       │              │                 └────> withdrawn, because nothing came of it: the operationID is free again
       │              └──dies──> another replica takes over, see `operation_upkeep`
       └──finds the Operation──> another request?  refused
                                 answered?         the same answer, see `operation_answers`
                                 failed?           tried anew
                                 under way?        waited for, until the answer is known
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import evolve, field, frozen

from gpuruntime.api.operation import FAILED, SUCCEEDED, Operation, OperationResult, operation_name
from gpuruntime.control import Informer, write_status
from gpuruntime.control.leadership.fence import seconds_since_boot
from gpuruntime.kube import AlreadyExistsError, Client, ConflictError, NotFoundError, Transport
from gpuruntime.meta import ObjectKey, Struct, TypedObject
from gpuruntime.service.errors import FailedForGoodError, NotFinishedError, NotRunningError, OperationConflictError
from gpuruntime.service.log_context import current_request_id, logged_for
from gpuruntime.service.operations.answers import Answers, Trace
from gpuruntime.service.operations.background import BackgroundThrottle
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.liveness import CircuitBreaker, Liveness
from gpuruntime.service.operations.record import (
    CREATED_BY,
    LeaseTiming,
    has_ended,
    new_operation,
    request_hash,
    taken,
)
from gpuruntime.service.operations.worker import OperationRunner

__all__ = ["Operations", "Performed", "Submitted"]

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 1.0
_GRACE_SECONDS: Final = 5.0
_ATTEMPTS: Final = 5


@frozen
class Submitted:
    """A request that is recorded: its Operation as it was seen, and whether it had been sent before."""

    operation: Operation
    is_replay: bool
    outcome: asyncio.Future[Outcome] | None = field(default=None, repr=False)


@frozen
class Performed:
    """A request that was carried out, now or before.

    `object` is what it made, if that was just now; what was made before may look otherwise by now.
    """

    operation: Operation
    result: OperationResult
    is_replay: bool
    object: TypedObject | None = None


@frozen
class _Running:
    """An Operation that this process works on."""

    hold: OperationLease
    task: asyncio.Task[None]


class _WithdrawnError(Exception):
    """The Operation that was waited for is gone: nothing came of it."""


class Operations:
    """Records requests as Operations, and works on those that were sent to this process.

    Guarantees:
        - Of requests with one operationID, one is carried out; across replicas, because the API server stores one
          Operation of a name.
        - What was submitted goes on when the caller goes away, and is taken over when the process does.
        - While the API server is silent, a caller hears so in some seconds (`Liveness`); what it submitted goes on.
        - A request of which nothing came leaves nothing behind, also no Operation.

    Assumptions:
        `run` runs while requests are submitted. The identity is this process's own.
    """

    def __init__(
        self,
        transport: Transport,
        informer: Informer[Operation],
        runner: OperationRunner,
        *,
        namespace: str,
        field_manager: str,
        identity: str,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = seconds_since_boot,
        signs: Liveness | None = None,
        traces: Sequence[Trace[Any]] = (),
    ) -> None:
        self.timing = timing or LeaseTiming()
        self.namespace = namespace
        self.clock = clock
        self._transport = transport
        self._signs = signs or Liveness(transport)
        self._informer = informer
        self._runner = runner
        self._field_manager = field_manager
        self._identity = identity
        # A creation that takes longer would leave no time to work in.
        self._client = Client(transport, field_manager=field_manager, timeout=self.timing.renew)
        # For what a caller waits for, and nobody else.
        self._asker = Client(CircuitBreaker(self._signs), field_manager=field_manager, timeout=self.timing.renew)
        self._answers = Answers(informer, {trace.type: trace for trace in traces})
        self._precedence = BackgroundThrottle(self.timing.renew / 2)
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, _Running] = {}

    async def run(self) -> None:
        """Own what was submitted, until cancelled; then what is under way has a moment to end, or is left to others."""
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
                    _LOG.warning("operations are left to other processes", extra={"operations": sorted(self._running)})

    @property
    def is_accepting(self) -> bool:
        """Whether requests can be submitted to this process."""
        return self._tasks is not None

    def is_running(self, name: str) -> bool:
        """Whether this process works on the Operation of this name."""
        return name in self._running

    def as_known(self, operation: Operation) -> Operation:
        """The Operation with what came of it, if that is known and not written down yet."""
        result = None if has_ended(operation) else self._result(operation)
        if result is None:
            return operation
        return evolve(operation, status=evolve(operation.status, state=SUCCEEDED, result=result))

    async def find(self, operation_id: str) -> Operation | None:
        """The Operation of an operationID, live; None if there is none."""
        try:
            return await self._asker.get(Operation, operation_name(operation_id), self.namespace)
        except NotFoundError:
            return None

    async def submit(
        self, operation_id: str, type_: str, request: Struct, *, stored: Struct | None = None
    ) -> Submitted:
        """Record a request, and begin to work on it unless it was recorded before.

        `request` is what the caller asks for, normalised; `stored`, if it is more, is what the work has to know.

        Raises:
            OperationConflictError: the operationID was used for another request.
            NotRunningError: this process does not work.
            KubeError: the server is away; the request may be recorded.
        """
        digest = request_hash(type_, request)
        for _ in range(_ATTEMPTS):
            submitted = await self._record(operation_id, type_, digest, stored or request)
            if submitted is not None:
                return submitted
        raise NotFinishedError(f"operation {operation_id} comes and goes all the time; try again later")

    async def perform(
        self, operation_id: str, type_: str, request: Struct, *, stored: Struct | None = None, within: float
    ) -> Performed:
        """Record a request and wait for what comes of it, for so many seconds.

        Raises:
            ServiceError: nothing came of it; or it is not finished, see NotFinishedError.
            KubeError: the server is away; the request may be recorded.
        """
        deadline = self.clock() + within
        while True:
            with self._precedence.awaited():
                submitted = await self.submit(operation_id, type_, request, stored=stored)
                if submitted.outcome is not None:
                    await self._signs.wait(submitted.outcome, deadline - self.clock())
            with suppress(_WithdrawnError):
                outcome = await self._outcome(submitted, deadline)
                return Performed(submitted.operation, outcome.result, submitted.is_replay, outcome.object)

    async def take_over(self, operation: Operation) -> None:
        """Work on an Operation that nobody works on any more, to its end or to the next failure.

        Raises:
            ConflictError: somebody else was faster.
            NotFoundError: it is gone.
            KubeError: the server is away.
        """
        owner, began = self._new_owner(), self.clock()
        status = taken(operation.status, owner, self._transport.server_time.now())
        written = await write_status(self._client, operation, status)
        self._runner.counters.taken_over[operation.spec.type] += 1
        running = self._begin(written or operation, owner, began)
        await asyncio.wait([running.task])

    async def _record(self, operation_id: str, type_: str, digest: str, stored: Struct) -> Submitted | None:
        """The recorded request; None if an Operation of its operationID came and went meanwhile."""
        if self._tasks is None:
            raise NotRunningError(f"operation {operation_id} is not accepted: this process is starting or stopping")
        key = ObjectKey(self.namespace, operation_name(operation_id))
        if key in self._informer.store and (known := await self.find(operation_id)) is not None:
            return await self._replayed(known, type_, digest)
        owner = self._new_owner()
        named = {"namespace": self.namespace, "created_by": owner, "request_id": current_request_id.get()}
        wanted = new_operation(operation_id, type_, digest, stored, **named)
        recorded: asyncio.Future[Submitted | Operation | None] = asyncio.get_running_loop().create_future()
        # Whoever waited for it may have gone.
        recorded.add_done_callback(lambda ended: ended.exception())
        if self._tasks is None:
            raise self._stopping(wanted)
        # Not the caller's own task: one that goes away, or loses patience, must leave nothing behind that nobody does.
        self._tasks.create_task(self._create(wanted, owner, recorded), name=f"record of {key.name}")
        await self._signs.wait(recorded)
        found = recorded.result()
        return await self._replayed(found, type_, digest) if isinstance(found, Operation) else found

    async def _create(
        self, wanted: Operation, owner: str, recorded: "asyncio.Future[Submitted | Operation | None]"
    ) -> None:
        """Record a request and begin to work on it; `recorded` tells whoever waits what came of it."""
        try:
            recorded.set_result(await self._created(wanted, owner))
        except Exception as error:  # noqa: BLE001 - it is the caller's; what others asked for goes on
            recorded.set_exception(error)
        finally:
            if not recorded.done():
                recorded.set_exception(self._stopping(wanted))

    async def _created(self, wanted: Operation, owner: str) -> Submitted | Operation | None:
        """The request, begun; or the Operation that was there before; or None, if that is gone again."""
        began, meta = self.clock(), wanted.metadata
        try:
            operation = await self._client.create(wanted)
        except AlreadyExistsError:
            try:
                operation = await self._client.get(Operation, meta.name, meta.namespace)
            except NotFoundError:
                return None
            # A server that asked us to try again may have stored the first try.
            if operation.metadata.annotations.get(CREATED_BY) != owner:
                return operation
        running = self._begin(operation, owner, began)
        return Submitted(operation, is_replay=False, outcome=running.hold.outcome)

    async def _replayed(self, found: Operation, type_: str, digest: str) -> Submitted | None:
        if (found.spec.type, found.spec.request_hash) != (type_, digest):
            raise OperationConflictError(
                f"operation {found.spec.operation_id} exists already with another request "
                f"({found.spec.type}); send the same request, or choose another operationID"
            )
        if found.status.state != FAILED:
            return Submitted(found, is_replay=True)
        # Half done and ended: whoever sends it again wants the rest done. The names of what was made are the same.
        meta = found.metadata
        with suppress(NotFoundError, ConflictError):
            await self._asker.delete(
                Operation, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
        return None

    async def _outcome(self, submitted: Submitted, deadline: float) -> Outcome:
        current = submitted.operation
        late = NotFinishedError(f"operation {current.spec.operation_id} is under way; ask again")
        if submitted.outcome is not None:
            if not submitted.outcome.done():
                raise late
            return submitted.outcome.result()
        # The caches tell when there is news. Looks at the server are for caches that are behind, and get rarer, so that
        # those who wait do not keep a late server busy.
        look = _LOOK_SECONDS
        while (result := self._result(current)) is None:
            if current.status.error is not None:
                raise FailedForGoodError(current.status.error.code, current.status.error.message)
            left, own = deadline - self.clock(), self._own(current)
            if left <= 0 or (own is not None and not await self._signs.wait(own, left)):
                raise late
            # Of two callers of this process, both hear the same, also if nothing came of it.
            current = await self._later(current, min(left, look)) if own is None else _answered(current, own)
            look *= 2
        return Outcome(result)

    async def _later(self, operation: Operation, within: float) -> Operation:
        """The Operation when the caches show something new of it, or after so many seconds, with its answer if there is
        one.

        Raises:
            _WithdrawnError: it is gone.
        """
        await self._answers.news(operation, within)
        if self._result(operation) is not None:
            return operation
        # The caches may be of another time than the server.
        found = await self.find(operation.spec.operation_id)
        if found is None or found.metadata.uid != operation.metadata.uid:
            raise _WithdrawnError
        return await self._answers.completed(self._asker, found)

    def _result(self, operation: Operation) -> OperationResult | None:
        """What came of an Operation, as far as that is certain; it may not be written down yet."""
        own = self._own(operation)
        if own is not None and own.done() and own.exception() is None:
            return own.result().result
        return self._answers.known(operation)

    def _own(self, operation: Operation) -> asyncio.Future[Outcome] | None:
        """The outcome of an Operation that this process works on."""
        running = self._running.get(operation.metadata.name)
        if running is None or running.hold.operation.metadata.uid != operation.metadata.uid:
            return None
        return running.hold.outcome

    def _begin(self, operation: Operation, owner: str, began: float) -> _Running:
        if self._tasks is None:
            raise self._stopping(operation)
        hold = OperationLease(
            operation,
            self._transport,
            owner=owner,
            began=began,
            field_manager=self._field_manager,
            timing=self.timing,
            clock=self.clock,
            precedence=self._precedence,
        )
        name = operation.metadata.name
        with logged_for(operation):
            task = self._tasks.create_task(self._runner.carry_out(hold), name=f"operation {name}")
        running = self._running[name] = _Running(hold, task)
        task.add_done_callback(lambda _: self._running.pop(name) if self._running.get(name) is running else None)
        return running

    def _stopping(self, operation: Operation) -> NotRunningError:
        return NotRunningError(f"operation {operation.spec.operation_id} is left to others: this process is stopping")

    def _new_owner(self) -> str:
        """Who works on an Operation: a name that no other attempt of any process has."""
        return f"{self._identity}/{uuid.uuid4().hex[:8]}"


def _answered(operation: Operation, outcome: asyncio.Future[Outcome]) -> Operation:
    return evolve(operation, status=evolve(operation.status, result=outcome.result().result))
