"""Idempotent writes: a request is executed once, however often and to whichever replica it is sent.

::

    submit ──creates the Operation──> executed ──> ended, with a result or an error, see `executor`
       │              │                   └──────> withdrawn, because nothing was changed: the operationID is free again
       │              └──process dies──> another replica takes over, see `controller`
       └──finds the Operation──> of another request?  refused
                                 has a result?        the same result, see `results`
                                 failed?              executed again
                                 running here?        awaits the outcome of the attempt, as the first caller does
                                 running elsewhere?   waits until the result is known
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from attrs import evolve, frozen

from gpuruntime.api.operation import FAILED, SUCCEEDED, Operation, OperationResult, operation_name
from gpuruntime.control import Informer
from gpuruntime.kube import Client, ConflictError, NotFoundError
from gpuruntime.meta import ObjectKey, Struct, TypedObject
from gpuruntime.service.errors import NotFinishedError, NotRunningError, OperationConflictError, OperationFailedError
from gpuruntime.service.log_context import current_request_id
from gpuruntime.service.operations.executor import OperationExecutor, Submitted
from gpuruntime.service.operations.liveness import CircuitBreaker, Liveness
from gpuruntime.service.operations.record import has_ended, new_operation, request_hash
from gpuruntime.service.operations.results import Evidence, OperationResults

__all__ = ["DEFAULT_WAIT_SECONDS", "Operations", "Performed", "Submitted"]

DEFAULT_WAIT_SECONDS: Final = 20.0
"""How long a caller waits for the result of its request by default."""
_POLL_SECONDS: Final = 1.0
_ROUNDS: Final = 5


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


class _WithdrawnError(Exception):
    """The awaited Operation is gone: nothing was changed."""


class Operations:
    """Records requests as Operations, and waits for their results.

    Guarantees:
        - Of requests with one operationID, one is executed; across replicas too, because the API server stores one
          Operation of a name.
        - A submitted request continues when the caller goes away, and is taken over when the process dies.
        - While the API server is down, a caller gets an error after a few seconds (`Liveness`); its request continues.
        - A request that changed nothing leaves no Operation behind.
    """

    def __init__(
        self,
        executor: OperationExecutor,
        informer: Informer[Operation],
        liveness: Liveness,
        *,
        namespace: str,
        field_manager: str,
        evidence: Sequence[Evidence[Any]] = (),
    ) -> None:
        self.namespace = namespace
        self._executor = executor
        self._informer = informer
        self._liveness = liveness
        # For requests that a caller waits for.
        self._client = Client(CircuitBreaker(liveness), field_manager=field_manager, timeout=executor.timing.renew)
        self._results = OperationResults(informer, {each.type: each for each in evidence})

    @property
    def is_accepting(self) -> bool:
        """Whether this process accepts requests."""
        return self._executor.is_accepting

    def as_known(self, operation: Operation) -> Operation:
        """The Operation with its result, if that is known and not stored yet."""
        result = None if has_ended(operation) else self._known(operation)
        if result is None:
            return operation
        return evolve(operation, status=evolve(operation.status, state=SUCCEEDED, result=result))

    async def find(self, operation_id: str) -> Operation | None:
        """Live read of the Operation of an operationID; None if there is none."""
        try:
            return await self._client.get(Operation, operation_name(operation_id), self.namespace)
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
        for _ in range(_ROUNDS):
            submitted = await self._recorded(operation_id, type_, digest, stored or request)
            if submitted is None:
                continue
            found = submitted.operation
            if (found.spec.type, found.spec.request_hash) != (type_, digest):
                raise OperationConflictError(
                    f"operationID {operation_id!r} was used for another request "
                    f"({found.spec.type}); send the same request, or choose another operationID"
                )
            if found.status.state != FAILED:
                return submitted
            # Failed halfway: a caller that sends it again wants the rest. Names of created objects follow from the
            # request, so a new Operation continues where the failed one stopped.
            meta = found.metadata
            with suppress(NotFoundError, ConflictError):
                await self._client.delete(
                    Operation, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
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
        deadline = self._executor.clock() + within
        while True:
            with self._executor.throttle.foreground():
                submitted = await self.submit(operation_id, type_, request, stored=stored)
                operation, is_replay, outcome = submitted.operation, submitted.is_replay, submitted.outcome
                if outcome is not None:
                    # Two callers of this process receive the same, also if nothing was changed.
                    if not await self._liveness.wait(outcome, deadline - self._executor.clock()):
                        raise _not_finished(operation_id)
                    done = outcome.result()
                    return Performed(operation, done.result, is_replay, None if is_replay else done.object)
            with suppress(_WithdrawnError):
                return Performed(operation, await self._result(operation, deadline), is_replay)

    async def _recorded(self, operation_id: str, type_: str, digest: str, stored: Struct) -> Submitted | None:
        """The recorded request, of any type; None if its Operation was deleted meanwhile."""
        self._executor.ensure_accepting(operation_id)
        name = operation_name(operation_id)
        if ObjectKey(self.namespace, name) in self._informer.store:
            known = await self.find(operation_id)
            if known is not None:
                return Submitted(known, is_replay=True, outcome=self._executor.outcome_of(known))
        wanted = new_operation(
            operation_id,
            type_,
            digest,
            stored,
            namespace=self.namespace,
            created_by=self._executor.new_owner(),
            request_id=current_request_id.get(),
        )
        creating = self._executor.create(wanted)
        await self._liveness.wait(creating)
        if creating.cancelled():
            raise NotRunningError(f"operation {operation_id} may be recorded: this process stops; try again")
        return creating.result()

    async def _result(self, operation: Operation, deadline: float) -> OperationResult:
        """The result of an Operation that another process executes.

        Waits on the caches. Live reads are for caches that lag; they become rarer, to spare a slow API server.

        Raises:
            _WithdrawnError: the Operation is gone.
        """
        current, poll = operation, _POLL_SECONDS
        while (result := self._known(current)) is None:
            if current.status.error is not None:
                raise OperationFailedError(current.status.error.code, current.status.error.message)
            left = deadline - self._executor.clock()
            if left <= 0:
                raise _not_finished(operation.spec.operation_id)
            await self._results.wait(current, min(left, poll))
            poll *= 2
            if self._known(current) is None:
                found = await self.find(operation.spec.operation_id)
                if found is None or found.metadata.uid != operation.metadata.uid:
                    raise _WithdrawnError
                current = await self._results.completed(self._client, found)
        return result

    def _known(self, operation: Operation) -> OperationResult | None:
        """The result of an Operation if it is certain; it may not be stored yet."""
        own = self._executor.outcome_of(operation)
        if own is not None and own.done() and own.exception() is None:
            return own.result().result
        return self._results.known(operation)


def _not_finished(operation_id: str) -> NotFinishedError:
    return NotFinishedError(f"operation {operation_id} is still running; retry with the same operationID")
