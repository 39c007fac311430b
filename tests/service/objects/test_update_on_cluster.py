"""Changes and deletions that their process did not live to finish, on a real control plane."""

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import DELETE_STOCKPOOL, UPDATE_GPU_UNIT
from gpuruntime.api.stockpool import StockPool
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import freeze
from gpuruntime.service.objects.delete import RemoveObject
from gpuruntime.service.objects.update import CHANGED_BY, ChangeObject
from tests.service.service_scenes import SMALL, ServiceWorld


async def test_a_change_that_was_recorded_only_is_made_by_whoever_takes_over(world: ServiceWorld) -> None:
    async with world.product() as product:
        made = await product.service.units.create("make", world.creates("demo", cold_start=True, envelope=SMALL))
    assert made.unit is not None
    change = ChangeObject("demo", world.active, freeze({"spec": {"image": "nginx:2"}}), uid=made.unit.metadata.uid)
    await world.abandon("change", UPDATE_GPU_UNIT, change)

    async with world.product() as product:
        ended = await world.ended(product, "change")

    unit = (await world.units(world.active))["demo"]
    assert (ended.status.state, unit.spec.image) == ("succeeded", "nginx:2")


async def test_a_change_that_was_made_is_not_made_again_over_what_others_changed_since(world: ServiceWorld) -> None:
    async with world.product() as product:
        made = await product.service.units.create("make", world.creates("demo", cold_start=True, envelope=SMALL))
    assert made.unit is not None
    change = ChangeObject("demo", world.active, freeze({"spec": {"image": "nginx:2"}}), uid=made.unit.metadata.uid)
    operation = await world.abandon("change", UPDATE_GPU_UNIT, change)
    mark = {"metadata": {"annotations": {CHANGED_BY: f"somebody {operation.metadata.uid}"}}}
    await world.admin.patch(GPUUnit, "demo", world.active, MergePatch({**mark, "spec": {"image": "nginx:3"}}))

    async with world.product() as product:
        ended = await world.ended(product, "change")

    unit = (await world.units(world.active))["demo"]
    assert (ended.status.state, unit.spec.image) == ("succeeded", "nginx:3")


async def test_a_deletion_that_was_recorded_only_never_takes_a_namesake(world: ServiceWorld) -> None:
    old = await world.make_pool(0, "old")
    new = await world.make_pool(0, "new")
    await world.abandon("drop-old", DELETE_STOCKPOOL, RemoveObject("old", world.stock, uid=old.metadata.uid))
    await world.abandon("drop-new", DELETE_STOCKPOOL, RemoveObject("new", world.stock, uid="the one before"))

    async with world.product() as product:
        states = [(await world.ended(product, name)).status.state for name in ("drop-old", "drop-new")]

    assert states == ["succeeded", "succeeded"]
    assert (await world.admin.get(StockPool, "new", world.stock)).metadata.uid == new.metadata.uid
    with pytest.raises(NotFoundError):
        await world.admin.get(StockPool, "old", world.stock)
