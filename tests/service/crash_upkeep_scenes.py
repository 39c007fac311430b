"""Another crash scenario: stock is reduced, a unit updated, a pool created, updated and shrunk."""

from typing import Any

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.operation import Operation
from gpuruntime.api.reasons import READY
from gpuruntime.api.rest.machines import DeleteStocks, NewStocks
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.meta.frozen_mapping import freeze
from gpuruntime.service.compat.cluster import ClusterMachines
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.operations.record import has_ended
from gpuruntime.service.pools import POOLS, CreatePool
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS
from gpuruntime.testing.crashing import Moment, Stage, World
from tests.service.crash_scenes import HANDOFF, Steps
from tests.service.service_scenes import Product

__all__ = ["UPKEEP", "upkeep"]

_SEEDED, _POOLED = "g2.1", "g1.1"
_SMALL: dict[str, Any] = {"cpu": "10m", "memory": "16Mi"}
_LATER = "nginx:later"


def upkeep(product: Product, active: str, stock: str) -> Steps:
    """The requests of an operator, one after the other; after a restart all of them are sent again."""
    service = product.service
    machines = ClusterMachines(service.operations, service.units, service.unit_reads, active, stock)
    pool = CreatePool("warm", StockPoolSpec(_POOLED, replicas=2, **_SMALL), stock)
    cold = CreateUnit("c", GPUUnitSpec(_POOLED, image="nginx", **_SMALL), active, stock, cold_start=True)
    newer = UpdateObject("c", active, freeze({"spec": {"image": _LATER}}))
    fewer = UpdateObject("warm", stock, freeze({"spec": {"image": _LATER, "replicas": 1}}))
    return (
        lambda: machines.create_stocks("seed", NewStocks(_SEEDED, 2, **_SMALL)),
        lambda: machines.delete_stocks("less", DeleteStocks(_SEEDED, 1)),
        lambda: service.of(POOLS).create("pool", pool),
        lambda: service.units.create("order-c", cold),
        lambda: service.of(ACTIVE_UNITS).update("newer-c", newer),
        lambda: service.of(POOLS).update("fewer", fewer),
    )


async def _no_preparation(_stage: Stage) -> None:
    """Nothing to do besides the requests."""


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
    """An invariant that must hold at every moment."""
    seeded = [unit for unit in moment.world.list(GPUUnit, "stock") if unit.spec.spec_name == _SEEDED]
    return "there is more stock than was seeded" if len(seeded) > 2 else None


UPKEEP = evolve(
    HANDOFF,
    name="reduce stock, update a unit, create, update and shrink a pool",
    act=_no_preparation,
    settled=_is_settled,
    invariant=_broken_promise,
)
