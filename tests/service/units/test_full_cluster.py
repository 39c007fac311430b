"""A cluster whose GPUs are all occupied by stock: claims get one, updates keep theirs, stock gets the rest."""

import asyncio
from collections.abc import Callable

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit, GPUUnitSpec
from gpuruntime.control import Informer, Store
from gpuruntime.kube.builtin.events import Event
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.testing import NodeShape
from tests.product_scenes import Observer, ready_reason
from tests.service.service_scenes import NGINX, Product, ServiceWorld, looking_at

LARGE = GPUUnitSpec("g2.1", image="nginx")


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


@pytest.mark.parametrize(
    "rounds", [2, pytest.param(13, id="52 claims", marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
async def test_claims_in_a_row_on_a_full_node_preempt_nothing_and_a_cold_start_preempts_idle_stock(
    world: ServiceWorld, observer: Observer, kube_nodes: Callable[[NodeShape], None], rounds: int
) -> None:
    model = f"FULL-{world.stock}"
    kube_nodes(NodeShape(f"full-{world.stock}", gpus=6, product=model))
    orders = {"small-0": NGINX, "large-0": LARGE, "small-1": NGINX, "large-1": LARGE}
    async with world.product() as product, looking_at(world.access, Event, world.stock) as events:
        await world.make_pool(2, "small", gpu=1, gpu_type=model)
        await world.make_pool(2, "large", spec_name="g2.1", gpu=2, gpu_type=model)

        for number in range(rounds):
            await stock_is_claimable(world, product)
            for name, spec in orders.items():
                await product.service.units.create(f"order-{name}-{number}", world.creates(name, spec))
            for name in orders:
                await observer.ready(ObjectKey(world.active, name))
            for name in orders:
                await product.service.units.delete(f"return-{name}-{number}", DeleteUnit(name, world.active))
        await stock_is_claimable(world, product)
        before = preempted(events)
        cold = GPUUnitSpec("g1.1", cpu="10m", memory="16Mi", gpu=1, gpu_type=model, image="nginx")
        await product.service.units.create("order-cold", world.creates("cold", cold, cold_start=True))
        await observer.ready(ObjectKey(world.active, "cold"))
        # The scheduler sends its events in order: none that came before this one is missing.
        await events.until(lambda _: bool(preempted(events)))

    assert (before, len(preempted(events))) == ([], 1)


async def test_pending_stock_does_not_take_the_room_of_a_claim(
    world: ServiceWorld, observer: Observer, kube_nodes: Callable[[NodeShape], None]
) -> None:
    model = f"FULL-{world.stock}"
    kube_nodes(NodeShape(f"full-{world.stock}", gpus=3, product=model))
    names = [f"unit-{number}" for number in range(3)]
    async with world.product() as product, looking_at(world.access, Event, world.stock) as events:
        await world.make_pool(3, gpu=1, gpu_type=model)
        await world.pool_because(reasons.POOL_READY)

        for refills, name in enumerate(names):
            await until_unschedulable(observer, world.stock, refills)
            await product.service.units.create(f"order-{name}", world.creates(name))
            await observer.ready(ObjectKey(world.active, name))
        await until_unschedulable(observer, world.stock, 3)

    assert preempted(events) == []


async def until_unschedulable(observer: Observer, namespace: str, number: int) -> None:
    """Returns when no node takes this number of units."""

    def holds(store: Store[GPUUnit]) -> bool:
        return [ready_reason(unit) for unit in store.list(namespace).items].count(reasons.UNSCHEDULABLE) == number

    await observer.units.until(holds)


async def stock_is_claimable(world: ServiceWorld, product: Product) -> None:
    """Returns when the product can claim four stock units."""
    await product.service.unit_reads.informer.until(
        lambda store: [ready_reason(unit) for unit in store.list(world.stock).items] == [reasons.STOCK_READY] * 4
    )


def preempted(events: Informer[Event]) -> list[str]:
    """The pods that the scheduler has preempted."""
    return [event.regarding.name or "" for event in events.store.list().items if event.reason == "Preempted"]


def _settled(stock: tuple[GPUUnit, ...]) -> bool:
    found = [ready_reason(unit) for unit in stock]
    return found.count(reasons.STOCK_READY) == 5 and found.count(reasons.UNSCHEDULABLE) == 3
