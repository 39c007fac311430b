"""A crash scenario: seed, claim, delete, claim from a pool, by a customer that retries until it succeeds."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gpuruntime.api.envelope import Reservation
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.api.operation import Operation
from gpuruntime.api.reasons import READY
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.provenance import claim_of, provenance_of
from gpuruntime.kube.errors import KubeError
from gpuruntime.meta import ObjectMeta
from gpuruntime.service.errors import ServiceError
from gpuruntime.service.operations.lease import LeaseLostError
from gpuruntime.service.operations.record import LeaseTiming, has_ended
from gpuruntime.service.stock.seed import SeedStock
from gpuruntime.service.units.create import CreateUnit
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.testing.crashing import Launch, Moment, Operator, Scenario, Stage, World
from tests.service.service_scenes import Product, build_product

__all__ = ["HANDOFF", "serving", "shopping", "state_of_units"]

Steps = Sequence[Callable[[], Awaitable[Any]]]
_IMPATIENT = LeaseTiming(lease=3.0, renew=2.5, period=0.8)
_SEEDED, _POOLED = "g2.1", "g1.1"


def _no_more(_product: Product, _active: str, _stock: str) -> None:
    pass


def serving(
    steps: Callable[[Product, str, str], Steps], install: Callable[[Product, str, str], None] = _no_more
) -> Operator:
    """The operator under test: all reconcilers, all use cases, and a customer that sends the requests of `steps` for
    the namespaces of active units and of stock. `install` adds more to it before it runs.
    """

    async def run(launch: Launch) -> None:
        active, stock = launch.namespace("active"), launch.namespace("stock")
        product = build_product(launch.credentials, active, stock, timing=_IMPATIENT)
        install(product, active, stock)

        async def customer() -> None:
            for step in steps(product, active, stock):
                while True:
                    try:
                        await step()
                        break
                    except (ServiceError, KubeError, LeaseLostError):
                        await asyncio.sleep(0.2)
            await asyncio.get_running_loop().create_future()

        product.manager.add(customer, "customer", group="always")
        await product.manager.run()

    return run


def shopping(product: Product, active: str, stock: str) -> Steps:
    """The requests of the customer, one after the other; after a restart all of them are sent again."""
    batches, units = product.service.stock, product.service.units
    return (
        lambda: batches.seed("seed", SeedStock(Reservation(_SEEDED, cpu="10m", memory="16Mi"), 1, stock)),
        lambda: units.create("order-a", CreateUnit("a", GPUUnitSpec(_SEEDED, image="nginx"), active, stock)),
        lambda: units.delete("return-a", DeleteUnit("a", active)),
        lambda: units.create("order-b", CreateUnit("b", GPUUnitSpec(_POOLED, image="nginx"), active, stock)),
    )


async def _make_pool(stage: Stage) -> None:
    spec = StockPoolSpec(_POOLED, replicas=2, cpu="10m", memory="16Mi")
    await stage.client.create(StockPool(ObjectMeta(name="warm", namespace=stage.namespace("stock")), spec))


def _is_settled(world: World) -> bool:
    stock, active = world.list(GPUUnit, "stock"), world.list(GPUUnit, "active")
    pool, operations = world.get(StockPool, "warm", "stock"), world.list(Operation)
    return (
        [unit.metadata.name for unit in active if unit.status.phase == READY] == ["b"]
        and len(stock) == 3
        and all(is_ready_stock(unit) for unit in stock)
        and len(operations) == 4
        and all(has_ended(operation) and operation.spec.request is None for operation in operations)
        and pool is not None
        and (pool.status.available, pool.status.allocated) == (2, 1)
    )


def _broken_promise(moment: Moment) -> str | None:
    """An invariant that must hold at every moment."""
    active, stock = moment.world.list(GPUUnit, "active"), moment.world.list(GPUUnit, "stock")
    sources = [source.uid for unit in active if (source := provenance_of(unit.metadata)) is not None]
    if len(sources) != len(set(sources)):
        return "two active units live on one stock unit"
    seeded = [unit for unit in stock if unit.spec.spec_name == _SEEDED and claim_of(unit.metadata) is None]
    consumed = [unit for unit in active if unit.spec.spec_name == _SEEDED]
    if len(seeded) + len(consumed) > 1:
        return "there is more capacity than was seeded"
    return None


async def state_of_units(stage: Stage) -> Any:
    """The final state; names of stock units, and which unit of a pool was claimed, do not matter."""
    found = []
    for role in ("active", "stock"):
        for unit in (await stage.client.list(GPUUnit, stage.namespace(role))).items:
            source = provenance_of(unit.metadata)
            found.append(
                [
                    role,
                    unit.metadata.name if role == "active" else "",
                    unit.spec.spec_name,
                    unit.spec.image,
                    unit.status.phase,
                    claim_of(unit.metadata) is not None and role == "stock",
                    "" if source is None else source.pool,
                    [owner.name for owner in unit.metadata.owner_references],
                ]
            )
    return sorted(found, key=str)


HANDOFF = Scenario(
    name="seed, claim, return, claim from a pool",
    kinds=(GPUUnit, StockPool, Operation),
    act=_make_pool,
    settled=_is_settled,
    invariant=_broken_promise,
    observe=state_of_units,
    namespaces=("active", "stock"),
    ignored_resources=("leases", "events"),
    # Longer than a lease, so that every Operation is taken over.
    idle_seconds=5.0,
    timeout=150.0,
)
