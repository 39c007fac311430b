"""Updates and deletions whose process died before it finished them, on a real control plane."""

import pytest

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import DELETE_STOCKPOOL, UPDATE_GPU_UNIT
from gpuruntime.api.stockpool import StockPool
from gpuruntime.kube.errors import NotFoundError
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import freeze
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import CHANGED_BY, UpdateObject
from tests.service.service_scenes import ServiceWorld


async def test_an_update_that_was_only_recorded_is_made_by_the_takeover(world: ServiceWorld) -> None:
    async with world.product() as product:
        made = await product.service.units.create("make", world.creates_cold("demo"))
    assert made.object is not None
    change = UpdateObject("demo", world.active, freeze({"spec": {"image": "nginx:2"}}), uid=made.object.metadata.uid)
    await world.abandon("change", UPDATE_GPU_UNIT, change)

    async with world.product() as product:
        ended = await world.ended(product, "change")

    unit = (await world.units(world.active))["demo"]
    assert (ended.status.state, unit.spec.image) == ("succeeded", "nginx:2")


async def test_an_update_that_was_made_is_not_repeated_over_later_changes(world: ServiceWorld) -> None:
    async with world.product() as product:
        made = await product.service.units.create("make", world.creates_cold("demo"))
    assert made.object is not None
    change = UpdateObject("demo", world.active, freeze({"spec": {"image": "nginx:2"}}), uid=made.object.metadata.uid)
    operation = await world.abandon("change", UPDATE_GPU_UNIT, change)
    changed_by = {"metadata": {"annotations": {CHANGED_BY: f"another {operation.metadata.uid}"}}}
    await world.admin.patch(GPUUnit, "demo", world.active, MergePatch({**changed_by, "spec": {"image": "nginx:3"}}))

    async with world.product() as product:
        ended = await world.ended(product, "change")

    unit = (await world.units(world.active))["demo"]
    assert (ended.status.state, unit.spec.image) == ("succeeded", "nginx:3")


async def test_a_deletion_that_was_only_recorded_never_deletes_another_object_of_the_name(world: ServiceWorld) -> None:
    old = await world.make_pool(0, "old")
    new = await world.make_pool(0, "new")
    await world.abandon("drop-old", DELETE_STOCKPOOL, DeleteObject("old", world.stock, uid=old.metadata.uid))
    await world.abandon("drop-new", DELETE_STOCKPOOL, DeleteObject("new", world.stock, uid="the one before"))

    async with world.product() as product:
        states = [(await world.ended(product, name)).status.state for name in ("drop-old", "drop-new")]

    assert states == ["succeeded", "succeeded"]
    assert (await world.admin.get(StockPool, "new", world.stock)).metadata.uid == new.metadata.uid
    with pytest.raises(NotFoundError):
        await world.admin.get(StockPool, "old", world.stock)
