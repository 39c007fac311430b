"""A cluster whose GPUs are all occupied by stock: claims get one, updates keep theirs, stock gets the rest."""

import asyncio
from collections.abc import Callable

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey
from gpuruntime.testing import NodeShape
from tests.product_scenes import Observer, ready_reason
from tests.service.service_scenes import ServiceWorld


async def test_on_a_full_cluster_claims_and_updates_get_gpus_and_stock_refills_the_rest(
    world: ServiceWorld, observer: Observer, kube_nodes: Callable[[NodeShape], None]
) -> None:
    product_name = f"FULL-{world.stock}"
    for number in range(2):
        kube_nodes(NodeShape(f"full-{number}-{world.stock}", gpus=4, product=product_name))
    names = [f"unit-{number}" for number in range(3)]
    async with world.product() as product:
        await world.make_pool(8, gpu=1, gpu_type=product_name)
        await world.pool_because(reasons.POOL_READY)

        await asyncio.gather(*(product.service.units.create(f"order-{name}", world.creates(name)) for name in names))
        claimed = [await observer.ready(ObjectKey(world.active, name)) for name in names]
        for name in names[:2]:
            patch = MergePatch({"spec": {"image": "other"}})
            await world.admin.patch(GPUUnit, name, world.active, patch)
        updated = [await observer.ready(ObjectKey(world.active, name), generation=2) for name in names[:2]]
        await observer.units.until(lambda store: _settled(store.list(world.stock).items))
        pool = await world.pool_because(reasons.POOL_PROGRESSING, "5 of 8 stock units are ready; 3 are unschedulable")
        active = [await observer.ready(ObjectKey(world.active, name)) for name in names]

    assert {unit.spec.gpu for unit in claimed} == {1}
    assert {unit.status.observed_generation for unit in updated} == {2}
    assert len(active) == 3
    assert (pool.status.available, pool.status.allocated) == (5, 3)
    assert await world.writes_of_a_second_pass() == []


def _settled(stock: tuple[GPUUnit, ...]) -> bool:
    found = [ready_reason(unit) for unit in stock]
    return found.count(reasons.STOCK_READY) == 5 and found.count(reasons.UNSCHEDULABLE) == 3
