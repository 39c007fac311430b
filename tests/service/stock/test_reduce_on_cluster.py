"""Reducing stock on a real control plane."""

from datetime import UTC, datetime

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.names import OPERATION_ID
from gpuruntime.api.operation import (
    REDUCE_STOCK,
    SEED_STOCK_UNITS,
    SUCCEEDED,
    Operation,
    OperationProgress,
    OperationStatus,
)
from gpuruntime.control import write_status
from gpuruntime.desired.provenance import Claim, claim_of
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import InsufficientCapacityError, RefusedError, StockClaimedError
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.operations.record import LeaseTiming
from gpuruntime.service.stock.claim import claim_patch
from gpuruntime.service.stock.delete import STOCK_UNITS
from gpuruntime.service.stock.reduce import ReduceStock, dispensable
from tests.product_scenes import Observer
from tests.service.admission_scenes import refusing_deletions
from tests.service.service_scenes import ServiceWorld, seeded

WITHIN = 20.0
# Abandoned Operations are taken over after the end of the test.
PATIENT = LeaseTiming(lease=120.0, renew=5.0, period=1.0)


async def claim(world: ServiceWorld, operation: Operation, name: str) -> None:
    """Claim a stock unit for an Operation that deletes it."""
    stock = await world.admin.get(GPUUnit, name, world.stock)
    meta = operation.metadata
    patch = claim_patch(stock, Claim(meta.uid, meta.name, None), datetime.now(UTC))
    await world.admin.patch(GPUUnit, name, world.stock, patch)


async def check_nothing_happened(world: ServiceWorld, names: list[str]) -> None:
    """All stock exists and is unclaimed, and no reduce request is recorded."""
    units = await world.units(world.stock)
    assert {name: claim_of(unit.metadata) for name, unit in units.items()} == dict.fromkeys(names)
    assert "less" not in {operation.spec.operation_id for operation in await world.operations()}


async def test_a_takeover_before_the_decision_continues_with_the_claimed_units(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        first, second, third = await seeded(world, product, observer, 3)
    operation = await world.abandon("less", REDUCE_STOCK, ReduceStock("g1.1", 2, world.stock))
    await claim(world, operation, first)

    async with world.product() as product:
        ended = await world.ended(product, "less")

    assert (ended.status.state, ended.status.attempts) == (SUCCEEDED, 2)
    assert ended.status.progress == OperationProgress(2, 2)
    assert sorted(await world.units(world.stock)) == [second]
    assert third != second


async def test_a_takeover_after_the_decision_deletes_the_remaining_units_and_no_others(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        first, second, third = await seeded(world, product, observer, 3)
    operation = await world.abandon("less", REDUCE_STOCK, ReduceStock("g1.1", 2, world.stock))
    await claim(world, operation, first)
    await write_status(world.admin, operation, OperationStatus(progress=OperationProgress(0, 2)))

    async with world.product() as product:
        ended = await world.ended(product, "less")

    assert (ended.status.state, ended.status.progress) == (SUCCEEDED, OperationProgress(2, 2))
    assert sorted(await world.units(world.stock)) == sorted([second, third])


async def test_units_of_a_running_seed_job_are_not_deleted_because_it_would_create_them_again(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product(timing=PATIENT) as product:
        (name,) = await seeded(world, product, observer, 1)
        await world.abandon("more", SEED_STOCK_UNITS, world.seeds(1))
        marked = MergePatch({"metadata": {"annotations": {OPERATION_ID: "more"}}})
        await world.admin.patch(GPUUnit, name, world.stock, marked)

        with pytest.raises(InsufficientCapacityError):
            await product.service.operations.perform(
                "less", REDUCE_STOCK, ReduceStock("g1.1", 1, world.stock), within=WITHIN
            )
        with pytest.raises(StockClaimedError, match="job"):
            await product.service.of(STOCK_UNITS).delete("end", DeleteObject(name, world.stock))

    assert name in await world.units(world.stock)


async def test_with_too_few_units_all_stay_unclaimed_and_nothing_is_recorded(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        names = await seeded(world, product, observer, 2)

        with pytest.raises(InsufficientCapacityError, match=r"has 2 .* expected 3 "):
            await product.service.operations.perform(
                "less", REDUCE_STOCK, ReduceStock("g1.1", 3, world.stock), within=WITHIN
            )

    await check_nothing_happened(world, names)


async def test_where_a_policy_forbids_the_deletion_all_stay_unclaimed_and_the_error_quotes_it(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        names = await seeded(world, product, observer, 2)

        async with refusing_deletions(world, world.stock, "stock is frozen"):
            with pytest.raises(RefusedError, match="stock is frozen"):
                await product.service.operations.perform(
                    "less", REDUCE_STOCK, ReduceStock("g1.1", 2, world.stock), within=WITHIN
                )

    await check_nothing_happened(world, names)


async def test_units_of_a_pool_and_units_in_use_are_not_dispensable_and_the_newest_go_first(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        first, second, third = await seeded(world, product, observer, 3)
        await world.make_pool(1)
        await world.pool_because("PoolReady")
        made = await product.service.units.create("order", world.creates("demo", stock_name=second))
        units = product.service.unit_reads.informer
        await units.until(lambda store: ObjectKey(world.stock, second) not in store)

        found = dispensable(units.store.list(world.stock).items)

    assert made.object is not None
    assert [unit.metadata.name for unit in found] == [third, first]
