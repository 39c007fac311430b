"""Another story that the product is killed in: stock given up, a unit updated, a pool made, changed and shrunk."""

from typing import Any

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import Operation
from gpuruntime.api.reasons import READY
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.desired.pool_units import is_ready_stock
from gpuruntime.meta.frozen_mapping import freeze
from gpuruntime.service.compat.cluster import ClusterMachines
from gpuruntime.service.compat.machines import DeleteStocks, NewStocks
from gpuruntime.service.objects.update import ChangeObject
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.operations.requests import CreateUnit, Envelope
from gpuruntime.service.pools import POOL_CHANGE, CreatePool
from gpuruntime.service.units.update import UNIT_CHANGE
from gpuruntime.testing.crashing import Moment, Stage, World
from tests.service.crash_scenes import HAND_OVER, Steps
from tests.service.service_scenes import Product

__all__ = ["UPKEEP", "upkeep"]

_SEEDED, _POOLED = "g2.1", "g1.1"
_SMALL: dict[str, Any] = {"cpu": "10m", "memory": "16Mi"}
_LATER = "nginx:later"


def upkeep(product: Product, active: str, stock: str) -> Steps:
    """What the operator of a cloud asks for, one after the other; one of a new process asks for all of it again."""
    service = product.service
    machines = ClusterMachines(service.operations, service.units, service.unit_reads, active, stock)
    pool = CreatePool("warm", StockPoolSpec(_POOLED, 2, **_SMALL), stock)
    cold = CreateUnit("c", _POOLED, "nginx", active, stock, cold_start=True, envelope=Envelope(_POOLED, **_SMALL))
    newer = ChangeObject("c", active, freeze({"spec": {"image": _LATER}}))
    fewer = ChangeObject("warm", stock, freeze({"spec": {"image": _LATER, "replicas": 1}}))
    return (
        lambda: machines.create_stocks("seed", NewStocks(_SEEDED, 2, **_SMALL)),
        lambda: machines.delete_stocks("less", DeleteStocks(_SEEDED, 1)),
        lambda: service.pools.create("pool", pool),
        lambda: service.units.create("order-c", cold),
        lambda: service.changes.change(UNIT_CHANGE, "newer-c", newer),
        lambda: service.changes.change(POOL_CHANGE, "fewer", fewer),
    )


async def _look_on(_stage: Stage) -> None:
    """Everything is asked for over the API."""


def _is_settled(world: World) -> bool:
    stock, active = world.list(GPUUnit, "stock"), world.list(GPUUnit, "active")
    pool, operations = world.get(StockPool, "warm", "stock"), world.list(Operation)
    return (
        [(unit.spec.image, unit.status.phase, unit.status.observed_generation) for unit in active]
        == [(_LATER, READY, 2)]
        and sorted((unit.spec.spec_name, unit.spec.image or "") for unit in stock) == [(_POOLED, _LATER), (_SEEDED, "")]
        and all(is_ready_stock(unit) for unit in stock)
        and len(operations) == 6
        and all(has_ended(operation) and operation.spec.request is None for operation in operations)
        and pool is not None
        and (pool.status.available, pool.status.observed_generation) == (1, 2)
    )


def _broken_promise(moment: Moment) -> str | None:
    """What must not be at any moment, however short."""
    seeded = [unit for unit in moment.world.list(GPUUnit, "stock") if unit.spec.spec_name == _SEEDED]
    return "there is more stock than was seeded" if len(seeded) > 2 else None


UPKEEP = evolve(
    HAND_OVER,
    name="give up stock, update a unit, make, change and shrink a pool",
    act=_look_on,
    settled=_is_settled,
    invariant=_broken_promise,
)
