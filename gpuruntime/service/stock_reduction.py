"""Giving up so many stock units of a spec, whichever: all of what is asked for, or nothing.

Where the process dies, and what happens then: which units are to go is noted in the Operation, so whoever takes it over
deletes those that are left, and no others.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import ClassVar, Final

from attrs import frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import OperationResult
from gpuruntime.control import Store
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.desired.provenance import claim_of
from gpuruntime.kube.client import Client
from gpuruntime.kube.errors import ConflictError, NotFoundError
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
    return _dispensable(units_of_spec(units, namespace, spec_name))


def _dispensable(units: Iterable[GPUUnit]) -> list[GPUUnit]:
    free = [
        unit
        for unit in units
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
        """Delete the units, and another one for each that others deleted. One that is claimed at the last moment stays.

        Raises:
            InsufficientCapacityError: the first one was claimed, or there was none left, so nothing was deleted.
            FailedForGoodError: that was so with a later one.
            KubeError: it is not known what came of it, or the server is away.
        """
        request = hold.request(ReduceStock)
        waiting, done = list(request.units), 0
        passed = {unit.uid for unit in waiting}
        while waiting:
            unit = waiting.pop(0)
            fate = await _delete(hold.client, ObjectKey(request.namespace, unit.name), unit.uid)
            # What is gone when we come was deleted by others, and is none of ours; unless we are not the first to come.
            if fate is _Fate.DELETED or (fate is _Fate.WAS_GONE and hold.is_resumed):
                done += 1
                await hold.report(done, request.number)
                continue
            another = await _another(hold.client, request, passed) if fate is _Fate.WAS_GONE else None
            if another is None:
                why = "deleted by others" if fate is _Fate.WAS_GONE else "claimed"
                message = f"stock unit {unit.name} was {why} meanwhile; {done} of {request.number} were deleted"
                if done == 0 and not hold.is_resumed:
                    raise InsufficientCapacityError(message)
                raise FailedForGoodError(InsufficientCapacityError.code, message)
            passed.add(another.uid)
            waiting.append(another)
        return Outcome(OperationResult(GPUUnit.KIND.kind, request.spec_name, request.namespace))


class _Fate(Enum):
    """What became of a unit that was to go."""

    DELETED = auto()
    WAS_GONE = auto()
    CLAIMED = auto()


async def _another(client: Client, request: ReduceStock, passed: set[str]) -> DoomedUnit | None:
    """A unit that can go and was not chosen before, live; None if there is none."""
    listed = (await client.list(GPUUnit, request.namespace)).items
    for unit in _dispensable(unit for unit in listed if unit.spec.spec_name == request.spec_name):
        if unit.metadata.uid not in passed:
            return DoomedUnit(unit.metadata.name, unit.metadata.uid)
    return None


async def _delete(client: Client, key: ObjectKey, uid: str) -> _Fate:
    """Delete a unit in the state in which it is seen, unless somebody has claimed it."""
    while True:
        current = await read_or_none(client, GPUUnit, key)
        if current is None or current.metadata.uid != uid:
            return _Fate.WAS_GONE
        if claim_of(current.metadata) is not None:
            return _Fate.CLAIMED
        try:
            version = current.metadata.resource_version
            await client.delete(GPUUnit, key.name, key.namespace, uid=uid, resource_version=version)
        except ConflictError:
            continue
        except NotFoundError:
            return _Fate.WAS_GONE
        return _Fate.DELETED
