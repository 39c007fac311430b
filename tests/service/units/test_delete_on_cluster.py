"""Deletions that a policy or a quota refuses, on a real control plane."""

import pytest

from gpuruntime.api.operation import SUCCEEDED
from gpuruntime.desired.provenance import claim_of
from gpuruntime.meta import ObjectKey
from gpuruntime.service.errors import RefusedError
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.stock.delete import STOCK_UNITS
from gpuruntime.service.units.delete import DeleteUnit
from tests.product_scenes import Observer
from tests.service.admission_scenes import refusing_by_quota, refusing_deletions
from tests.service.service_scenes import ServiceWorld, seeded


async def test_a_unit_whose_deletion_is_refused_stays_and_the_operation_id_is_free(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        await seeded(world, product, observer, 1)
        await product.service.units.create("order", world.creates("demo"))
        await world.ended(product, "order")

        async with refusing_deletions(world, world.active, "units are frozen"):
            with pytest.raises(RefusedError, match="units are frozen"):
                await product.service.units.delete("end", DeleteUnit("demo", world.active))
        refused = sorted(operation.spec.operation_id for operation in await world.operations())
        await product.service.units.delete("end", DeleteUnit("demo", world.active))

    assert refused == ["order", "seed"]
    assert await world.units(world.active) == {}


async def test_a_stock_unit_whose_deletion_is_refused_stays_and_can_be_claimed(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        (name,) = await seeded(world, product, observer, 1)

        async with refusing_deletions(world, world.stock, "stock is frozen"):
            with pytest.raises(RefusedError, match="stock is frozen"):
                await product.service.of(STOCK_UNITS).delete("end", DeleteObject(name, world.stock))

    stock = await world.units(world.stock)
    assert [(found, claim_of(unit.metadata)) for found, unit in stock.items()] == [(name, None)]
    assert [operation.spec.operation_id for operation in await world.operations()] == ["seed"]


async def test_stock_that_a_quota_refuses_is_returned_later_and_the_caller_does_not_wait(
    world: ServiceWorld, observer: Observer
) -> None:
    async with world.product() as product:
        (name,) = await seeded(world, product, observer, 1)
        await product.service.units.create("order", world.creates("demo"))
        await world.ended(product, "order")

        async with refusing_by_quota(world, world.stock):
            gone = await product.service.units.delete("end", DeleteUnit("demo", world.active))
            meanwhile = (await world.units(world.active), await world.units(world.stock))
        given_back = await observer.ready(ObjectKey(world.stock, name))
        ended = await world.ended(product, "end")

    assert gone.object is None
    assert meanwhile == ({}, {})
    assert given_back.spec.spec_name == "g1.1"
    assert ended.status.state == SUCCEEDED
    assert await world.writes_of_a_second_pass() == []
