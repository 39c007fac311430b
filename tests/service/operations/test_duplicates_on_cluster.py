"""Requests that are sent to two replicas of a real control plane: both return the same result."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import REDUCE_STOCK, SUCCEEDED, Operation, OperationResult
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.meta import FrozenDict, ObjectKey
from gpuruntime.service.errors import NotFinishedError
from gpuruntime.service.objects.delete import DeleteObject
from gpuruntime.service.objects.update import UpdateObject
from gpuruntime.service.pools import POOLS, CreatePool
from gpuruntime.service.reads.informers import watch_operations
from gpuruntime.service.stock.delete import STOCK_UNITS
from gpuruntime.service.stock.names import batch_name, stock_name
from gpuruntime.service.stock.reduce import ReduceStock
from gpuruntime.service.units.delete import DeleteUnit
from gpuruntime.service.units.lifecycle import ACTIVE_UNITS
from gpuruntime.service.wiring import Service
from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.faults import DieAtOnce, HoldEvents, StallRequests
from gpuruntime.testing.faults.proxy import BearerToken, FaultProxy
from tests.product_scenes import Observer
from tests.service.admission_scenes import refusing_by_quota
from tests.service.service_scenes import Product, ServiceWorld, looking_at, seeded

Ask = Callable[[Service, ServiceWorld, float], Awaitable[OperationResult | None]]
# Shorter than a lease, and than the cleanup that is stalled here.
PATIENCE = 4.0
STOCK = 5


async def create(service: Service, world: ServiceWorld, within: float = 20.0) -> OperationResult | None:
    return (await service.units.create("order-1", world.creates("demo"), within=within)).performed.result


async def change(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = UpdateObject("used", world.active, FrozenDict({"spec": {"image": "nginx:2"}}))
    return (await service.of(ACTIVE_UNITS).update("change-1", request, within=within)).performed.result


async def change_nothing(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = UpdateObject("used", world.active, FrozenDict({"spec": {"image": "nginx"}}))
    return (await service.of(ACTIVE_UNITS).update("change-2", request, within=within)).performed.result


async def delete(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    return (await service.units.delete("return-1", DeleteUnit("used", world.active), within=within)).performed.result


async def remove_stock(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = DeleteObject(stock_name(batch_name("g1.1", "seed"), STOCK), world.stock)
    return (await service.of(STOCK_UNITS).delete("remove-1", request, within=within)).result


async def reduce(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = ReduceStock("g1.1", 1, world.stock)
    return (await service.operations.perform("reduce-1", REDUCE_STOCK, request, within=within)).result


async def create_pool(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = CreatePool("cool", StockPoolSpec("g3.1", replicas=0, cpu="10m", memory="16Mi"), world.stock)
    return (await service.of(POOLS).create("pool-1", request, within=within)).performed.result


async def in_time(asked: Awaitable[OperationResult | None]) -> OperationResult | None:
    """The result that a caller gets in time; None if there is none."""
    try:
        return await asked
    except NotFinishedError:
        return None


async def test_a_duplicate_gets_the_result_while_the_cleanup_of_the_first_one_is_stalled(
    world: ServiceWorld, observer: Observer, tmp_path: Path
) -> None:
    async with two_replicas(world, tmp_path) as (one, proxy, two):
        (name,) = await seeded(world, one, observer, 1)
        with proxy.inject(StallRequests(), method="DELETE", path=f".*/{world.stock}/gpuunits/.*"):
            first = await create(one.service, world)
            again = [await in_time(create(replica.service, world, PATIENCE)) for replica in (two, one)]
            job = two.service.operations.as_known(await record_of(world, "order-1"))
            kept = sorted(await world.units(world.stock))
        await observer.units.until(lambda store: not store.list(world.stock).items)

    assert first is not None
    assert again == [first, first]
    assert (job.status.state, job.status.result) == (SUCCEEDED, first)
    assert kept == [name]
    assert sorted(await world.units(world.active)) == ["demo"]
    assert await world.writes_of_a_second_pass() == []


async def test_a_duplicate_on_a_replica_whose_cache_lags_gets_the_result_by_a_live_read(
    world: ServiceWorld, observer: Observer, tmp_path: Path
) -> None:
    async with two_replicas(world, tmp_path) as (two, proxy, one):
        await seeded(world, one, observer, 1)
        await seeded(world, two, observer, 1)
        with proxy.inject(HoldEvents(), path=".*/gpuunits"), proxy.inject(HoldEvents(), path=".*/operations"):
            first = await create(one.service, world)
            again = await in_time(create(two.service, world, PATIENCE))

    assert first is not None
    assert again == first


# In an order in which each finds what it is about.
ASKED: list[Ask] = [change_nothing, change, delete, remove_stock, create, reduce, create_pool]


async def test_a_duplicate_gets_the_result_of_a_process_that_died_right_after_its_response(
    world: ServiceWorld, observer: Observer, tmp_path: Path
) -> None:
    first: dict[str, OperationResult | None] = {}
    again: dict[str, OperationResult | None] = {}
    async with world.product(name="two") as two:
        await seeded(world, two, observer, STOCK)
        await two.service.units.create("earlier", world.creates("used"))
        await world.ended(two, "earlier")

        for ask in ASKED:
            async with behind_proxy(world, tmp_path) as (one, proxy):
                await one.service.unit_reads.informer.synced()
                await watch_operations(one.manager.cache, world.active).synced()
                first[ask.__name__] = await ask(one.service, world, 20.0)
                proxy.inject(DieAtOnce())
                again[ask.__name__] = await in_time(ask(two.service, world, PATIENCE))

    assert None not in first.values()
    assert again == first


async def test_a_deletion_whose_stock_is_refused_returns_on_either_replica_before_the_stock_is_back(
    world: ServiceWorld, observer: Observer, tmp_path: Path
) -> None:
    async with two_replicas(world, tmp_path) as (one, _proxy, two):
        (name,) = await seeded(world, two, observer, 1)
        await two.service.units.create("earlier", world.creates("used"))
        await world.ended(two, "earlier")

        async with refusing_by_quota(world, world.stock):
            first = await delete(one.service, world, 20.0)
            again = await in_time(delete(two.service, world, PATIENCE))
            state = (await record_of(world, "return-1")).status.state
        async with looking_at(world.access, GPUUnit, world.stock) as stock:
            await stock.until(lambda store: ObjectKey(world.stock, name) in store)

    assert first is not None
    assert again == first
    assert state != SUCCEEDED


async def record_of(world: ServiceWorld, operation_id: str) -> Operation:
    (found,) = [found for found in await world.operations() if found.spec.operation_id == operation_id]
    return found


@asynccontextmanager
async def two_replicas(world: ServiceWorld, directory: Path) -> AsyncIterator[tuple[Product, FaultProxy, Product]]:
    """A replica behind a proxy, the proxy, and a replica without one."""
    async with behind_proxy(world, directory) as (one, proxy), world.product(name="two") as two:
        yield one, proxy, two


@asynccontextmanager
async def behind_proxy(world: ServiceWorld, directory: Path) -> AsyncIterator[tuple[Product, FaultProxy]]:
    """A replica behind a proxy, and the proxy."""
    identity = BearerToken(world.account.token)
    async with FaultProxy(world.access.server, world.access.authority, identity=identity) as proxy:
        kubeconfig = directory / "through-the-proxy.kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_document(proxy.url, b"", {})))
        there = evolve(world, account=evolve(world.account, kubeconfig=kubeconfig))
        async with there.product(name="one") as one:
            yield one, proxy
