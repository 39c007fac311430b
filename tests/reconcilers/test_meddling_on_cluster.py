"""People who edit what is ours, on a real control plane: it is put right, and nothing stays stuck."""

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import CLAIM_ID
from gpuruntime.desired.provenance import CLAIMED_BY, CLAIMED_FOR, claim_of
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey
from tests.product_scenes import UNITS, Observer, settled
from tests.service.conftest import observer, world
from tests.service.service_scenes import ServiceWorld, seeded

__all__ = ["observer", "world"]

POOLS = UNITS.replace("gpuunits", "stockpools")


async def test_a_foreign_status_is_overwritten(world: ServiceWorld, observer: Observer) -> None:
    admin = world.access.admin()
    async with world.product() as product:
        await world.make_pool(1)
        await world.pool_because(reasons.POOL_READY)
        stock = next(iter(await world.units(world.stock)))

        for status in (None, {"phase": "Failed", "conditions": []}):
            admin.merge(f"{UNITS.format(world.stock)}/{stock}/status", {"status": status})
            admin.merge(f"{POOLS.format(world.stock)}/warm/status", {"status": status})
            for controller in (product.units, product.pools):
                await settled(world.access, controller)
            unit = await observer.ready(ObjectKey(world.stock, stock))
            pool = await world.pool_because(reasons.POOL_READY)
            assert (unit.status.phase, unit.status.ready_replicas) == ("Ready", 1)
            assert (pool.status.phase, pool.status.available) == ("Ready", 1)

    assert sorted(await world.units(world.stock)) == [stock]
    assert await world.writes_of_a_second_pass() == []


async def test_an_invalid_claim_is_released(world: ServiceWorld, observer: Observer) -> None:
    wrong = ("nobody", "kube-system/nobody", "No Name/..")
    async with world.product() as product:
        names = await seeded(world, product, observer, len(wrong))

        for name, claimed_for in zip(names, wrong, strict=True):
            claim = {CLAIM_ID: "nonsense", CLAIMED_BY: "No Operation", CLAIMED_FOR: claimed_for}
            await world.admin.patch(GPUUnit, name, world.stock, MergePatch({"metadata": {"annotations": claim}}))
            await observer.because(ObjectKey(world.stock, name), reasons.STOCK_CLAIMED, "nonsense")
        free = [await observer.ready(ObjectKey(world.stock, name)) for name in names]

    assert [claim_of(unit.metadata) for unit in free] == [None] * len(wrong)
    assert await world.writes_of_a_second_pass() == []
