"""Stock units that are edited, or lose their owner reference and labels: they stay their pool's, and go with it."""

import asyncio
from contextlib import suppress
from typing import Any

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.stockpool import StockPool
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta.owners import controller_of
from tests.product_scenes import Observer, rested, settled
from tests.service.conftest import observer, world
from tests.service.service_scenes import ServiceWorld

__all__ = ["observer", "world"]

BOTH: dict[str, Any] = {"ownerReferences": None, "labels": None}
LOSSES: list[dict[str, Any]] = [{"ownerReferences": None}, {"labels": None}, BOTH]


async def test_stock_units_that_lost_their_owner_or_labels_get_them_back(world: ServiceWorld) -> None:
    async with world.product() as product:
        pool = await world.make_pool(len(LOSSES))
        await world.pool_because(reasons.POOL_READY)
        before = await world.units(world.stock)

        for name, loss in zip(before, LOSSES, strict=True):
            await world.admin.patch(GPUUnit, name, world.stock, MergePatch({"metadata": loss}))
        await settled(world.access, product.pools)
        await world.pool_because(reasons.POOL_READY)
        after = await world.units(world.stock)

    owners = [controller_of(unit.metadata) for unit in after.values()]
    assert [owner and owner.uid for owner in owners] == [pool.metadata.uid] * len(LOSSES)
    assert {name: unit.metadata.labels for name, unit in after.items()} == {
        name: unit.metadata.labels for name, unit in before.items()
    }
    assert await world.writes_of_a_second_pass() == []


async def test_stock_that_outlived_its_pool_goes(world: ServiceWorld, observer: Observer) -> None:
    async with world.product() as product:
        await world.make_pool(2)
        await world.pool_because(reasons.POOL_READY)
        await settled(world.access, product.pools)
    for name in await world.units(world.stock):
        await world.admin.patch(GPUUnit, name, world.stock, MergePatch({"metadata": BOTH}))
    await world.admin.delete(StockPool, "warm", world.stock)

    async with world.product() as product:
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                await observer.units.until(lambda store: not len(store))
                await rested(product.pools)
        counted = product.manager.observability.registry.get_sample_value(
            "gpuruntime_pool_orphans_removed_total", {"kind": "GPUUnit"}
        )
        left = await world.units(world.stock)

    assert list(left) == []
    assert counted == 2


async def test_a_stock_unit_whose_spec_was_edited_is_replaced(world: ServiceWorld) -> None:
    async with world.product() as product:
        await world.make_pool(1)
        await world.pool_because(reasons.POOL_READY)
        [before] = await world.units(world.stock)

        edit = MergePatch({"spec": {"image": "evil"}})
        await world.admin.patch(GPUUnit, before, world.stock, edit)
        await settled(world.access, product.pools)
        after = await world.units(world.stock)

    assert any(unit.spec.image != "evil" for unit in after.values())
