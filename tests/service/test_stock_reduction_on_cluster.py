"""Giving up stock on a real control plane."""

from gpuruntime.api.operation import SUCCEEDED
from gpuruntime.meta import ObjectKey
from gpuruntime.service.stock_reduction import REDUCE_STOCK, DoomedUnit, ReduceStock, superfluous
from tests.product_scenes import Onlooker
from tests.service.service_scenes import ServiceWorld, seeded


async def test_whoever_takes_over_deletes_what_was_chosen_and_nothing_that_got_its_name_since(
    world: ServiceWorld, onlooker: Onlooker
) -> None:
    async with world.product() as product:
        first, second, third = await seeded(world, product, onlooker, 3)
    units = await world.units(world.stock)
    doomed = (
        DoomedUnit("gone-already", "uid"),
        DoomedUnit(first, units[first].metadata.uid),
        DoomedUnit(second, "the uid of one that had this name"),
    )
    await world.abandon("less", REDUCE_STOCK, ReduceStock("g1.1", 3, world.stock, doomed))

    async with world.product() as product:
        ended = await world.ended(product, "less")

    assert (ended.status.state, ended.status.attempts) == (SUCCEEDED, 2)
    assert sorted(await world.units(world.stock)) == [second, third]


async def test_units_of_a_pool_and_units_in_use_are_not_superfluous_and_the_youngest_go_first(
    world: ServiceWorld, onlooker: Onlooker
) -> None:
    async with world.product() as product:
        first, second, third = await seeded(world, product, onlooker, 3)
        await world.make_pool(1)
        await world.pool_because("PoolReady")
        made = await product.service.units.create("order", world.creates("demo", stock_name=second))
        units = product.service.unit_reads.informer
        await units.until(lambda store: ObjectKey(world.stock, second) not in store)

        found = superfluous(units.store, world.stock, "g1.1")

    assert made.unit is not None
    assert [unit.metadata.name for unit in found] == [third, first]
