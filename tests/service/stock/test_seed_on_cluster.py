"""Seeding stock on a real control plane."""

import pytest

from gpuruntime.api.names import OPERATION_ID, STOCK_ORDINAL, STOCK_REPLICAS
from gpuruntime.api.operation import (
    SEED_STOCK_UNITS,
    SUCCEEDED,
    Operation,
    OperationProgress,
    OperationResult,
    operation_name,
)
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import OperationConflictError
from gpuruntime.service.stock.names import batch_name, stock_name
from tests.product_scenes import Observer
from tests.service.service_scenes import ServiceWorld, seeded


async def test_a_batch_is_seeded_once_however_often_it_is_sent_and_consumed(
    world: ServiceWorld, observer: Observer
) -> None:
    batch = batch_name("g1.1", "batch-1")
    async with world.product() as product:
        names = await seeded(world, product, observer, 3, "batch-1")
        await product.service.units.create("order-1", world.creates("demo"))
        await observer.units.until(lambda store: len(store.list(world.stock).items) == 2)
        await observer.ready(ObjectKey(world.active, "demo"))

        again = await product.service.stock.seed("batch-1", world.seeds(3))
        with pytest.raises(OperationConflictError, match="'batch-1'"):
            await product.service.stock.seed("batch-1", world.seeds(4))

    units, status = await world.units(world.stock), again.operation.status
    assert sorted(names) == [stock_name(batch, ordinal) for ordinal in (1, 2, 3)]
    assert (again.is_replay, status.state, status.progress) == (True, SUCCEEDED, OperationProgress(3, 3))
    assert status.result == OperationResult("GPUUnit", batch, world.stock)
    assert sorted(units) == sorted(names[1:])
    assert {
        stock_name(batch, int(unit.metadata.annotations[STOCK_ORDINAL])): unit.metadata.annotations[STOCK_REPLICAS]
        for unit in units.values()
    } == dict.fromkeys(units, "3")
    assert await world.writes_of_a_second_pass() == []


async def test_a_batch_whose_process_died_is_finished_without_units_that_were_consumed_meanwhile(
    world: ServiceWorld, observer: Observer
) -> None:
    more = [stock_name(batch_name("g1.1", "batch-1"), ordinal) for ordinal in (3, 4)]
    async with world.product() as product:
        _, left = await seeded(world, product, observer, 2, "batch-1")
        made = await product.service.units.create("order-1", world.creates("demo"))
        await observer.units.until(lambda store: len(store.list(world.stock).items) == 1)
        await observer.ready(ObjectKey(world.active, "demo"))
    # A process died in the middle of a larger batch of the same operationID.
    await world.admin.delete(Operation, operation_name("batch-1"), world.active)
    await world.abandon("batch-1", SEED_STOCK_UNITS, world.seeds(4))

    async with world.product() as product:
        ended = await world.ended(product, "batch-1")
        for name in (left, *more):
            await observer.ready(ObjectKey(world.stock, name))

    assert made.object is not None
    assert (ended.status.state, ended.status.attempts) == (SUCCEEDED, 2)
    assert sorted(await world.units(world.stock)) == [left, *more]
    assert {unit.metadata.annotations[OPERATION_ID] for unit in (await world.units(world.stock)).values()} == {
        "batch-1"
    }
    assert await world.writes_of_a_second_pass() == []
