"""Giving up so many stock units of a spec, whichever: all of what is asked for, or nothing.

Where the process dies, and what happens then: which units are to go is noted in the Operation, so whoever takes it over
deletes those that are left, and no others.
"""

from typing import ClassVar, Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import OperationResult
from gpuruntime.control import Store
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.desired.provenance import claim_of
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
from gpuruntime.meta.codec import decode
from gpuruntime.meta.frozen_mapping import thaw
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.owners import controller_of
from gpuruntime.meta.structs import Struct
from gpuruntime.service.changing import read_or_none
from gpuruntime.service.errors import FailedForGoodError, InsufficientCapacityError
from gpuruntime.service.operation_hold import OperationHold, Outcome
from gpuruntime.service.unit_index import units_of_spec

__all__ = ["REDUCE_STOCK", "DoomedUnit", "ReduceStock", "StockReduction", "superfluous"]

REDUCE_STOCK: Final = "reduce_stock"


@frozen
class DoomedUnit(Struct):
    """A stock unit that is to go, and no other that gets its name."""

    name: str
    uid: str


@frozen
class ReduceStock(Struct):
    """Delete so many stock units of a spec. The caller says how many; which ones is noted with the Operation."""

    spec_name: str
    number: int
    namespace: str
    units: tuple[DoomedUnit, ...] = ()


def superfluous(units: Store[GPUUnit], namespace: str, spec_name: str) -> list[GPUUnit]:
    """The units that can go, those first that nobody misses: what is not ready, then the youngest.

    Units of a pool are not among them: the pool would make others.
    """
    free = [
        unit
        for unit in units_of_spec(units, namespace, spec_name)
        if claim_of(unit.metadata) is None
        and unit.metadata.deletion_timestamp is None
        and controller_of(unit.metadata) is None
    ]
    free.sort(key=lambda unit: (unit.metadata.creation_timestamp or "", unit.metadata.name), reverse=True)
    return sorted(free, key=is_ready_stock)


@frozen
class StockReduction:
    """The work of a reduce_stock operation."""

    type: ClassVar = REDUCE_STOCK

    async def run(self, hold: OperationHold) -> Outcome:
        """Delete the units. One that is claimed at the last moment stays.

        Raises:
            InsufficientCapacityError: the first one was claimed, so nothing was deleted.
            FailedForGoodError: a later one was.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = decode(ReduceStock, thaw(hold.operation.spec.request or {}))
        for done, unit in enumerate(request.units):
            if not await _is_gone(hold.client, ObjectKey(request.namespace, unit.name), unit.uid):
                message = f"stock unit {unit.name} was claimed meanwhile; {done} of {request.number} were deleted"
                if done == 0 and not hold.is_resumed:
                    raise InsufficientCapacityError(message)
                raise FailedForGoodError(InsufficientCapacityError.code, message)
            await hold.report(done + 1, request.number)
        return Outcome(OperationResult(GPUUnit.KIND.kind, request.spec_name, request.namespace))


async def _is_gone(client: Client, key: ObjectKey, uid: str) -> bool:
    """Delete a unit in the state in which it is seen; false if somebody has claimed it."""
    while True:
        current = await read_or_none(client, GPUUnit, key)
        if current is None or current.metadata.uid != uid:
            return True
        if claim_of(current.metadata) is not None:
            return False
        try:
            version = current.metadata.resource_version
            await client.delete(GPUUnit, key.name, key.namespace, uid=uid, resource_version=version)
        except ConflictError:
            continue
        except NotFoundError:
            pass
        return True
