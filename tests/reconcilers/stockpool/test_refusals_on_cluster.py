"""Pools that make no stock, because they cannot be or because the cluster says no, on a real control plane."""

from gpuruntime.api import reasons
from gpuruntime.api.stockpool import StockPool, StockPoolSpec
from gpuruntime.kube.patches import MergePatch
from gpuruntime.meta import ObjectMeta, find_condition
from tests.service.admission_scenes import refusing_units
from tests.service.conftest import world
from tests.service.service_scenes import ServiceWorld

__all__ = ["world"]

NO_SUCH_CLASS = "No_Such Name"


async def test_a_pool_without_room_in_the_quota_says_so_and_fills_when_there_is_room(world: ServiceWorld) -> None:
    admin, quotas = world.access.admin(), f"/api/v1/namespaces/{world.stock}/resourcequotas"
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/gpuunits.runtime.lokiwager.io": "0"}}}
    admin.create(quotas, quota)
    async with world.product(refused_seconds=1.0) as product:
        await world.make_pool(1)
        refused = await world.pool_because(reasons.UNIT_SYNC_FAILED, "quota")
        runs = sum(product.pools.counters.results.values())

        admin.delete(f"{quotas}/none")
        filled = await world.pool_because(reasons.POOL_READY)

    assert (refused.status.phase, refused.status.last_serial) == ("Failed", None)
    assert (filled.status.available, filled.status.last_serial) == (1, 1)
    assert runs < 50
    assert await world.writes_of_a_second_pass() == []


async def test_a_pool_whose_units_a_policy_refuses_says_so_and_fills_when_the_policy_is_gone(
    world: ServiceWorld,
) -> None:
    async with world.product(refused_seconds=1.0):
        async with refusing_units(world, world.stock, "no stock on Sundays"):
            await world.make_pool(2)
            refused = await world.pool_because(reasons.UNIT_SYNC_FAILED, "no stock on Sundays")
            made = await world.units(world.stock)

        filled = await world.pool_because(reasons.POOL_READY)

    assert (refused.status.phase, made) == ("Failed", {})
    assert (filled.status.available, filled.status.last_serial) == (2, 2)
    assert await world.writes_of_a_second_pass() == []


async def test_a_pool_outside_a_stock_namespace_makes_nothing_and_says_where_it_belongs(world: ServiceWorld) -> None:
    async with world.product():
        await world.admin.create(
            StockPool(ObjectMeta(name="astray", namespace=world.active), StockPoolSpec("g1.1", replicas=3))
        )

        astray = await world.pool_because(reasons.INVALID_SPEC, "namespace", "astray", world.active)

    assert (astray.status.phase, astray.status.last_serial) == ("Failed", None)
    assert await world.units(world.active) == {}
    assert await world.writes_of_a_second_pass() == []


async def test_a_pool_of_which_no_unit_can_come_says_why_makes_none_and_recovers_when_it_is_mended(
    world: ServiceWorld,
) -> None:
    async with world.product():
        await world.make_pool(2, runtime_class_name=NO_SUCH_CLASS)
        born = await world.pool_because(reasons.INVALID_SPEC, "spec.runtimeClassName: ")
        none = await world.units(world.stock)
        quiet = await world.writes_of_a_second_pass()

        await change(world, {"runtimeClassName": None})
        await world.pool_because(reasons.POOL_READY)
        before = await world.units(world.stock)
        await change(world, {"runtimeClassName": NO_SUCH_CLASS, "replicas": 1})
        spoilt = await world.pool_because(reasons.INVALID_SPEC, "spec.runtimeClassName")
        during = await world.units(world.stock)
        await change(world, {"runtimeClassName": None, "replicas": 2})
        await world.pool_because(reasons.POOL_READY)

    condition = find_condition(born.status.conditions, "Ready")
    assert condition is not None
    assert (born.status.phase, condition.status, none, quiet) == ("Failed", "False", {}, [])
    assert (spoilt.status.available, len(before)) == (2, 2)
    assert before.keys() == during.keys() == (await world.units(world.stock)).keys()
    assert await world.writes_of_a_second_pass() == []


async def change(world: ServiceWorld, spec: dict[str, object]) -> None:
    await world.admin.patch(StockPool, "warm", world.stock, MergePatch({"spec": spec}))
