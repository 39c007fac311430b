"""A pool's life on a real control plane. After each scene the product starts anew, and writes nothing."""

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import Change
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.provenance import provenance_of
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey
from gpuruntime.service.units.delete import DeleteUnit
from tests.product_scenes import Observer
from tests.service.conftest import observer, world
from tests.service.service_scenes import ServiceWorld, looking_at

__all__ = ["observer", "world"]


async def test_a_pool_fills_shrinks_empties_and_takes_its_stock_with_it(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product():
        await world.make_pool(3)
        full = await world.pool_because(reasons.POOL_READY)
        names = sorted(await world.units(world.stock))

        world.access.kubectl("scale", "stockpools.runtime.lokiwager.io/warm", "--replicas=1", "-n", world.stock)
        await observer.units.until(lambda store: len(store.list(world.stock).items) == 1)
        kept = sorted(await world.units(world.stock))
        world.access.kubectl("scale", "stockpools.runtime.lokiwager.io/warm", "--replicas=0", "-n", world.stock)
        await observer.units.until(lambda store: not store.list(world.stock).items)
        async with looking_at(world.access, StockPool, world.stock) as pools:
            await pools.until(lambda store: [pool.status.available for pool in store.list().items] == [0])
        empty = await world.pool_because(reasons.SCALED_TO_ZERO)
        world.access.kubectl("scale", "stockpools.runtime.lokiwager.io/warm", "--replicas=1", "-n", world.stock)
        refilled = await world.pool_because(reasons.POOL_READY)
        last = sorted(await world.units(world.stock))
        quiet = await world.writes_of_a_second_pass()
        await world.admin.delete(StockPool, "warm", world.stock)
        await observer.units.until(lambda store: not store.list(world.stock).items)

    assert (full.status.phase, full.status.available, full.status.allocated) == ("Ready", 3, 0)
    assert (empty.status.phase, empty.status.available) == ("Empty", 0)
    assert (refilled.status.phase, refilled.status.last_serial) == ("Ready", 4)
    assert kept[0] in names
    assert last[0] not in names
    assert quiet == []


async def test_a_pool_refills_after_a_claim_and_counts_what_it_supplied(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        pool = await world.make_pool(2)
        await world.pool_because(reasons.POOL_READY)

        made = await product.service.units.create("order-1", world.creates("demo"))
        await observer.ready(ObjectKey(world.active, "demo"))
        async with looking_at(world.access, StockPool, world.stock) as pools:
            await pools.until(lambda store: [found.status.allocated for found in store.list().items] == [1])
        refilled = await world.pool_because(reasons.POOL_READY)
        await observer.units.until(lambda store: len(store.list(world.stock).items) == 2)
        await product.service.units.delete("order-2", DeleteUnit("demo", world.active))
        await observer.units.until(lambda store: not store.list(world.active).items)

    source = None if made.object is None else provenance_of(made.object.metadata)
    stock = await world.units(world.stock)
    assert source is not None
    assert source.pool == pool.metadata.name
    assert (refilled.status.available, refilled.status.allocated, refilled.status.last_serial) == (2, 1, 3)
    assert len(stock) == 2
    assert source.stock.name not in stock
    assert await world.writes_of_a_second_pass() == []


async def test_units_of_an_old_spec_are_replaced_without_dropping_below_the_target(
    world: ServiceWorld, observer: Observer
) -> None:
    ready: list[int] = []

    def count(change: Change[GPUUnit]) -> None:
        if not change.initial and change.key.namespace == world.stock:
            ready.append(sum(is_ready_stock(unit) for unit in observer.units.store.list(world.stock).items))

    async with world.product():
        await world.make_pool(2)
        await world.pool_because(reasons.POOL_READY)
        before = set(await world.units(world.stock))
        await observer.units.subscribe(count)

        await world.admin.patch(StockPool, "warm", world.stock, MergePatch({"spec": {"memory": "32Mi"}}))
        await observer.units.until(
            lambda store: {unit.spec.memory for unit in store.list(world.stock).items} == {"32Mi"}
        )
        observer.units.unsubscribe(count)
        done = await world.pool_because(reasons.POOL_READY, "2 of 2 stock units are ready.")

    after = await world.units(world.stock)
    assert min(ready) >= 2
    assert not before & set(after)
    assert len(after) == 2
    assert done.status.available == 2
    assert await world.writes_of_a_second_pass() == []


async def test_a_pool_says_what_it_waits_for(world: ServiceWorld) -> None:
    async with world.product():
        await world.make_pool(1, node_selector={"no": "such-node"})

        homeless = await world.pool_because(reasons.POOL_PROGRESSING, "are unschedulable")

    assert homeless.status.phase == "Progressing"
    assert await world.writes_of_a_second_pass() == []
