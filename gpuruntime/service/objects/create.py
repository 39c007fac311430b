"""Creating an object on request.

If the process dies after the creation, the replica that takes the Operation over finds the object by its annotations.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

from attrs import evolve, field, frozen
from attrs.validators import matches_re

from gpuruntime.api.names import OPERATION_ID, REQUEST_HASH
from gpuruntime.api.operation import Operation, OperationResult
from gpuruntime.kube import AlreadyExistsError, Client, NotFoundError
from gpuruntime.meta import Struct, TypedObject
from gpuruntime.schema import Violation
from gpuruntime.service.errors import NameTakenError, ServiceError
from gpuruntime.service.objects.admission import REFUSALS, key_violations, raise_if_any, refusal
from gpuruntime.service.objects.update import WriteResult, write_result
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.submit import DEFAULT_WAIT_SECONDS, Operations
from gpuruntime.service.reads.reader import read_or_none

__all__ = ["CreateObjectHandler", "Creations"]

K = TypeVar("K", bound=TypedObject)
R = TypeVar("R", bound=Struct)
_Class = type[R]


async def _allow_live(_client: Client, _request: Struct) -> None:
    pass


@frozen
class CreateObjectHandler(Generic[R, K]):
    """Executes creations of one kind.

    Args:
        type: the type of the Operations; it begins with "create_".
        request: the type of the requests.
        build: the object that a request asks for.
        violations: the rules that a request violates; name and namespace are checked besides.
        check_live: raises a ServiceError if the object must not be created, after reads from the API server; it is
            called once, when the request is submitted.
    """

    type: str = field(validator=matches_re("create_.+"))
    request: _Class[R]
    build: Callable[[R], K]
    violations: Callable[[R], Iterable[Violation]]
    check_live: Callable[[Client, R], Awaitable[None]] = field(default=_allow_live)

    async def run(self, lease: OperationLease) -> Outcome:
        """Create the object.

        Raises:
            NameTakenError: another object has the name.
            RefusedError: the API server rejected the object.
            LeaseLostError: the object was created, and deleted since.
            KubeError: the outcome is unknown, or the API server is not available.
        """
        wanted = _annotated(self.build(lease.request(self.request)), lease.operation)
        made = await lease.earlier(lambda: read_or_none(lease.client, type(wanted), wanted.key))
        if made is None or not _is_requested(made, wanted):
            # A deletion ends this Operation before it deletes the object. So after a deletion this raises.
            await lease.confirm()
            made = await self._create(lease.client, wanted)
        return Outcome(OperationResult(made.KIND.kind, made.key.name, made.key.namespace, made.metadata.uid), made)

    async def _create(self, client: Client, wanted: K) -> K:
        what = f"{wanted.KIND.kind} {wanted.key}"
        try:
            return await client.create(wanted)
        except AlreadyExistsError as error:
            existing = await read_or_none(client, type(wanted), wanted.key)
            if existing is not None and _is_requested(existing, wanted):
                return existing
            raise NameTakenError(
                f"{what} exists already and was created by another request; choose another name, or update it"
            ) from error
        except (*REFUSALS, NotFoundError) as error:
            raise refusal(what, error) from error


@frozen
class Creations:
    """Creates objects on request."""

    operations: Operations
    client: Client

    async def create(
        self,
        handler: CreateObjectHandler[R, K],
        operation_id: str,
        request: R,
        *,
        namespaces: tuple[str, ...],
        within: float = DEFAULT_WAIT_SECONDS,
    ) -> WriteResult[K]:
        """Create an object in one of these namespaces. A replay returns the object as it is now.

        Raises:
            InvalidRequestError: the request is invalid.
            ServiceError: `check_live` of the handler raised it; nothing was stored.
            OperationConflictError: the operationID was used for another request.
            NameTakenError, RefusedError: nothing was created.
            NotFinishedError: it will be created; retry with the same operationID.
            NotRunningError, KubeError: try again with the same operationID.
        """
        wanted = handler.build(request)
        raise_if_any([*handler.violations(request), *key_violations(wanted.key, wanted.KIND.plural, namespaces)])
        try:
            await handler.check_live(self.client, request)
        except ServiceError:
            # A replay must succeed also when what was checked has changed since.
            if await self.operations.find(operation_id) is None:
                raise
        performed = await self.operations.perform(operation_id, handler.type, request, within=within)
        return await write_result(self.client, type(wanted), wanted.key, performed)


def _annotated(wanted: K, operation: Operation) -> K:
    """The object with the identity of its request."""
    identity = {OPERATION_ID: operation.spec.operation_id, REQUEST_HASH: operation.spec.request_hash}
    return evolve(wanted, metadata=evolve(wanted.metadata, annotations=wanted.metadata.annotations | identity))


def _is_requested(existing: K, wanted: K) -> bool:
    """Whether an object was created for the same operationID and request."""
    asked, found = wanted.metadata.annotations, existing.metadata.annotations
    return all(found.get(name) == asked[name] for name in (OPERATION_ID, REQUEST_HASH))
