"""Deleting a stock unit or a pool on request.

Where the process dies, and what happens then: whoever takes the Operation over deletes the object by its UID, and one
that is gone stays gone.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from attrs import evolve, field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import DELETE_STOCK_UNIT, DELETE_STOCKPOOL, OperationResult
from gpuruntime.api.stockpool import StockPool
from gpuruntime.desired.provenance import claim_of
from gpuruntime.kube import Client, ConflictError, NotFoundError, UnavailableError
from gpuruntime.meta import ObjectKey, Struct, TypedObject
from gpuruntime.service.errors import ClaimedError, ObjectNotFoundError, ServiceError
from gpuruntime.service.objects.admission import REFUSALS, refused
from gpuruntime.service.objects.creation_ends import end_creation
from gpuruntime.service.objects.update import ensure_version, read_or_none
from gpuruntime.service.operations.lease import OperationLease, Outcome
from gpuruntime.service.operations.operations import Operations, Performed
from gpuruntime.service.stock.seed import is_being_seeded

__all__ = ["POOL_REMOVAL", "STOCK_REMOVAL", "ObjectRemoval", "Removals", "RemoveObject"]

K = TypeVar("K", bound=TypedObject)
_Class = type[K]
_ATTEMPTS: Final = 10
_PATIENCE_SECONDS: Final = 20.0


@frozen
class RemoveObject(Struct):
    """Delete an object, if it is in the state `resource_version` ("": any).

    The caller says name and namespace. The rest is noted when the Operation is made.
    """

    name: str
    namespace: str
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)


def _free(unit: GPUUnit) -> None:
    """Pass if nobody has claimed the unit.

    Raises:
        ClaimedError: somebody has.
    """
    claim = claim_of(unit.metadata)
    if claim is None:
        return
    if claim.claimed_for is None:
        raise ClaimedError(f"stock unit {unit.key} is being given up by operation {claim.operation}")
    raise ClaimedError(f"stock unit {unit.key} is promised to unit {claim.claimed_for}; delete that instead")


@frozen
class ObjectRemoval(Generic[K]):
    """The work of an operation that deletes an object of a kind. `check` raises if one must stay."""

    type: str
    kind: _Class[K]
    check: Callable[[K], None] = field(default=lambda _: None)

    async def run(self, hold: OperationLease) -> Outcome:
        """Delete the object, in the state in which it was looked at: a claim that comes at the same time wins.

        Raises:
            ClaimedError: it is a stock unit that is being handed out.
            StaleVersionError: it is not in the state that the request names.
            RefusedError: the API server does not delete it.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = hold.request(RemoveObject)
        result = OperationResult(self.kind.KIND.kind, request.name, request.namespace, request.uid)
        for _ in range(_ATTEMPTS):
            current = await read_or_none(hold.client, self.kind, request.key)
            if current is None or current.metadata.uid != request.uid:
                return Outcome(result)
            self.check(current)
            ensure_version(current, request.resource_version)
            await end_creation(hold, current)
            try:
                await hold.client.delete(
                    self.kind,
                    request.name,
                    request.namespace,
                    uid=request.uid,
                    resource_version=current.metadata.resource_version,
                )
            except ConflictError:
                continue
            except NotFoundError:
                pass
            except REFUSALS as error:
                raise refused(f"the deletion of {self.kind.KIND.kind} {request.key}", error) from error
            return Outcome(result)
        raise UnavailableError(f"{self.kind.KIND.kind} {request.key} changes all the time; it is deleted later")


STOCK_REMOVAL: Final = ObjectRemoval(DELETE_STOCK_UNIT, GPUUnit, _free)
"""The work of a delete_stock_unit operation."""
POOL_REMOVAL: Final = ObjectRemoval(DELETE_STOCKPOOL, StockPool)
"""The work of a delete_stockpool operation. The stock of a pool goes with it, but not what was claimed."""


@frozen
class Removals:
    """Deletes stock units and pools."""

    operations: Operations
    client: Client

    async def remove(
        self,
        removal: ObjectRemoval[K],
        operation_id: str,
        request: RemoveObject,
        *,
        within: float = _PATIENCE_SECONDS,
    ) -> Performed:
        """Delete an object. A replay deletes nothing, also if another object has the name by now.

        Raises:
            ObjectNotFoundError: there is none, and the operationID deleted none.
            ClaimedError, StaleVersionError, RefusedError: see `ObjectRemoval`; nothing was stored.
            OperationConflictError: the operationID was used for another request.
            NotFinishedError: it will be deleted; ask again.
            NotRunningError, KubeError: not now; ask again with the same operationID.
        """
        found = await read_or_none(self.client, removal.kind, request.key)
        try:
            await self._check(removal, found, request)
        except ServiceError:
            # Whoever sends the same again must not be told what is wrong now that it is done.
            if await self.operations.find(operation_id) is None:
                raise
        asked = RemoveObject(request.name, request.namespace)
        noted = request if found is None else evolve(request, uid=found.metadata.uid)
        return await self.operations.perform(operation_id, removal.type, asked, stored=noted, within=within)

    async def _check(self, removal: ObjectRemoval[K], found: K | None, request: RemoveObject) -> None:
        if found is None:
            raise ObjectNotFoundError(f"{removal.kind.KIND.kind} {request.key}: expected one to delete, found none")
        removal.check(found)
        ensure_version(found, request.resource_version)
        if isinstance(found, GPUUnit) and await is_being_seeded(self.client, found, self.operations.namespace):
            raise ClaimedError(f"stock unit {found.key} is of a job that has not ended, and would be made again; wait")
