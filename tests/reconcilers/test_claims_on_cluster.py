"""Claims whose process died, on a real control plane: none is lost, none is handed out twice."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime

import pytest

from gpuruntime.api import reasons
from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import SOURCE_STOCK_NAME
from gpuruntime.api.operation import CREATE_GPU_UNIT, FAILED, SUCCEEDED, Operation, OperationFailure
from gpuruntime.api.stockpool import StockPool
from gpuruntime.control import write_status
from gpuruntime.desired.pools.units import is_ready_stock
from gpuruntime.desired.provenance import CLAIM_ANNOTATIONS, Provenance, claim_of, provenance_of
from gpuruntime.kube.builtin.events import Event
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey, controller_of
from gpuruntime.service.errors import InsufficientCapacityError
from gpuruntime.service.operations.record import LeaseTiming, ended
from gpuruntime.service.stock.claim import claim_for, claim_patch
from gpuruntime.service.units.create import active_unit
from tests.desired.pool_scenes import NOW
from tests.product_scenes import UNITS, Observer, settled
from tests.service.admission_scenes import refusing_units
from tests.service.conftest import observer, world
from tests.service.service_scenes import ServiceWorld, looking_at, seeded

__all__ = ["observer", "world"]

IMPATIENT = LeaseTiming(lease=2.0, renew=1.5, period=0.5)


async def claimed_by(world: ServiceWorld, operation: Operation, name: str, active: str = "demo") -> GPUUnit:
    """A stock unit, claimed by an operation as a process does it that dies right after that."""
    stock = (await world.units(world.stock))[name]
    patch = claim_patch(stock, claim_for(operation, stock, ObjectKey(world.active, active)), NOW)
    return await world.admin.patch(GPUUnit, name, world.stock, patch)


async def test_an_operation_that_died_after_its_claim_goes_on_with_that_very_unit(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        names = await seeded(world, product, observer, 2)
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    stock = await claimed_by(world, operation, names[1])

    async with world.product() as product:
        done = await world.ended(product, "order-1")
        unit = await observer.ready(ObjectKey(world.active, "demo"))
        await observer.units.until(lambda store: ObjectKey(world.stock, names[1]) not in store)

    source = provenance_of(unit.metadata)
    assert source is not None
    assert source.uid == stock.metadata.uid
    assert (done.status.state, done.status.attempts) == (SUCCEEDED, 2)
    assert not any(found.spec.request for found in await world.operations())
    assert sorted(await world.units(world.stock)) == names[:1]
    assert await world.writes_of_a_second_pass() == []


async def test_an_operation_that_died_after_the_creation_only_deletes_the_stock_unit(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        names = await seeded(world, product, observer, 2)
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    stock = await claimed_by(world, operation, names[0])
    made = await world.admin.create(active_unit(world.creates("demo"), operation, stock))

    async with world.product() as product:
        done = await world.ended(product, "order-1")
        await observer.ready(ObjectKey(world.active, "demo"))
        await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) not in store)

    result = done.status.result
    assert result is not None
    assert result.uid == made.metadata.uid
    assert sorted(await world.units(world.stock)) == names[1:]
    assert await world.writes_of_a_second_pass() == []


async def test_a_void_claim_is_released_to_its_pool_and_a_finished_one_is_finished(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product():
        await world.make_pool(3)
        await world.pool_because(reasons.POOL_READY)
        names = sorted(await world.units(world.stock))
    gone = await world.abandon("gone", CREATE_GPU_UNIT, world.creates("never"))
    failed = await world.abandon("failed", CREATE_GPU_UNIT, world.creates("failed"))
    finished = await world.abandon("finished", CREATE_GPU_UNIT, world.creates("demo"))
    await claimed_by(world, gone, names[0], "never")
    await claimed_by(world, failed, names[1], "failed")
    taken = await claimed_by(world, finished, names[2])
    await world.admin.create(active_unit(world.creates("demo"), finished, taken))
    await world.admin.delete(Operation, gone.metadata.name, world.active)
    await world.admin.delete(Operation, finished.metadata.name, world.active)
    failure = OperationFailure("refused", "no")
    await write_status(world.admin, failed, ended(failed.status, datetime.now(UTC), result=None, error=failure))

    async with world.product():
        # Meanwhile the pool may have replaced all three.
        await observer.units.until(lambda store: is_full(store.list(world.stock).items, names[:2]))
        await observer.ready(ObjectKey(world.active, "demo"))
        async with looking_at(world.access, StockPool, world.stock) as pools:
            await pools.until(lambda store: [supply(found) for found in store.list().items] == [(3, 1)])
        pool = await world.pool_because(reasons.POOL_READY)

    stock = await world.units(world.stock)
    owners = [controller_of(stock[name].metadata) for name in names[:2]]
    assert [owner and owner.name for owner in owners] == ["warm", "warm"]
    assert not any(claim_of(unit.metadata) for unit in stock.values())
    assert (len(stock), supply(pool)) == (3, (3, 1))
    assert {operation.status.state for operation in await world.operations()} == {FAILED}
    assert await world.writes_of_a_second_pass() == []


def supply(pool: StockPool) -> tuple[int | None, int | None]:
    return pool.status.available, pool.status.allocated


def is_full(stock: Sequence[GPUUnit], kept: list[str]) -> bool:
    """Whether these and one other unit are there, and all of them are ready, free and of their pool."""
    names = {unit.metadata.name for unit in stock}
    is_settled = all(is_ready_stock(unit) and controller_of(unit.metadata) is not None for unit in stock)
    return names.issuperset(kept) and len(stock) == len(kept) + 1 and is_settled


async def test_a_claimed_unit_outlives_its_pool_and_goes_when_its_claim_turns_out_to_be_void(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        await world.make_pool(2)
        await world.pool_because(reasons.POOL_READY)
        await settled(world.access, product.units)
        names = sorted(await world.units(world.stock))
        operation = await world.abandon("order-1", "of_another_version", world.creates("demo"))
        claimed = await claimed_by(world, operation, names[0])

        await world.admin.delete(StockPool, "warm", world.stock)
        await observer.units.until(lambda store: ObjectKey(world.stock, names[1]) not in store)
        survived = ObjectKey(world.stock, names[0]) in observer.units.store
        await world.admin.delete(Operation, operation.metadata.name, world.active)
        await observer.units.until(lambda store: not store.list(world.stock).items)

    assert controller_of(claimed.metadata) is None
    assert survived
    assert await world.writes_of_a_second_pass() == []


async def test_a_claim_whose_release_a_policy_refuses_is_released_when_the_policy_is_gone(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        (name,) = await seeded(world, product, observer, 1)
    key = ObjectKey(world.stock, name)
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    await claimed_by(world, operation, name)
    await world.admin.delete(Operation, operation.metadata.name, world.active)

    async with AsyncExitStack() as policy, looking_at(world.access, Event, world.stock) as events:
        await policy.enter_async_context(refusing_units(world, world.stock, "hands off"))
        async with world.product(timing=IMPATIENT, refused_seconds=1.0):
            await events.until(lambda store: any(map(_refusal_is_recorded, store.list().items)))
            held = (await world.units(world.stock))[name]
            await policy.aclose()
            await observer.until(key, "it is free", lambda unit: claim_of(unit.metadata) is None)
            await observer.ready(key)

    assert claim_of(held.metadata) is not None
    assert await world.writes_of_a_second_pass() == []


async def test_a_unit_that_was_taken_over_is_not_handed_out_again_though_its_claim_was_stripped_off(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product(timing=IMPATIENT) as product:
        names = await seeded(world, product, observer, 1)
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    stock = await claimed_by(world, operation, names[0])
    await world.admin.create(active_unit(world.creates("demo"), operation, stock))
    stripped = MergePatch({"metadata": {"annotations": dict.fromkeys(CLAIM_ANNOTATIONS)}})
    await world.admin.patch(GPUUnit, names[0], world.stock, stripped)

    async with world.product(timing=IMPATIENT) as product:
        with pytest.raises(InsufficientCapacityError):
            await product.service.units.create("order-2", world.creates("another"))
        await observer.units.until(lambda store: not store.list(world.stock).items)
        done = await world.ended(product, "order-1")
        await observer.ready(ObjectKey(world.active, "demo"))

    assert done.status.state == SUCCEEDED
    assert sorted(await world.units(world.active)) == ["demo"]
    assert await world.writes_of_a_second_pass() == []


def made_by_hand(world: ServiceWorld, stock: GPUUnit, **named: str) -> None:
    """An active unit that names a stock unit, as a user applies it with kubectl."""
    body = {
        "apiVersion": "runtime.lokiwager.io/v1alpha1",
        "kind": "GPUUnit",
        "metadata": {
            "name": "by-hand",
            "annotations": Provenance(stock.key, stock.metadata.uid).annotations() | named,
        },
        "spec": {"specName": "g1.1", "cpu": "10m", "memory": "16Mi", "image": "nginx"},
    }
    world.access.admin().create(UNITS.format(world.active), body)


async def test_a_stock_unit_that_a_unit_made_by_hand_names_goes(world: ServiceWorld, observer: Observer) -> None:
    async with world.product(timing=IMPATIENT) as product:
        names = await seeded(world, product, observer, 2)
        stock = await world.units(world.stock)

        made_by_hand(world, stock[names[0]])
        with suppress(TimeoutError):
            async with asyncio.timeout(30 * IMPATIENT.lease):
                await observer.units.until(lambda store: ObjectKey(world.stock, names[0]) not in store)
        await observer.ready(ObjectKey(world.active, "by-hand"))
        left = sorted(await world.units(world.stock))

    assert left == names[1:]
    assert await world.writes_of_a_second_pass() == []


async def test_stock_that_was_claimed_for_another_unit_is_not_had_by_naming_it(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        (name,) = await seeded(world, product, observer, 1)
    operation = await world.abandon("order-1", CREATE_GPU_UNIT, world.creates("demo"))
    stock = await claimed_by(world, operation, name)
    made_by_hand(world, stock)

    async with world.product(timing=IMPATIENT) as product:
        done = await world.ended(product, "order-1")
        unit = await observer.ready(ObjectKey(world.active, "demo"))
        await observer.units.until(lambda store: not store.list(world.stock).items)

    source = provenance_of(unit.metadata)
    assert source is not None
    assert source.uid == stock.metadata.uid
    assert done.status.state == SUCCEEDED


async def test_a_unit_that_names_a_stock_unit_in_part_has_no_part_in_it(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product(timing=IMPATIENT) as product:
        (name,) = await seeded(world, product, observer, 1)
        stock = (await world.units(world.stock))[name]
        made_by_hand(world, stock, **{SOURCE_STOCK_NAME: "another"})
        await product.service.unit_reads.informer.until(lambda store: ObjectKey(world.active, "by-hand") in store)

        try:
            made = await product.service.units.create("order-1", world.creates("demo"))
        except InsufficientCapacityError:
            made = None

    assert made is not None
    assert made.object is not None
    assert made.object.metadata.annotations[SOURCE_STOCK_NAME] == name


def _refusal_is_recorded(event: Event) -> bool:
    return event.reason == "ClaimEndRefused" and "hands off" in (event.note or "")
