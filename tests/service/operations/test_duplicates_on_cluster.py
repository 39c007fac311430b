"""Requests that are sent twice, to two replicas, on a real control plane: the second hears what the first heard."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import evolve

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.operation import SUCCEEDED, Operation, OperationResult, operation_name
from gpuruntime.api.stockpool import StockPoolSpec
from gpuruntime.meta import FrozenDict, ObjectKey
from gpuruntime.service.errors import NotFinishedError
from gpuruntime.service.objects.delete import STOCK_REMOVAL, RemoveObject
from gpuruntime.service.objects.update import ChangeObject
from gpuruntime.service.operations.requests import DeleteUnit
from gpuruntime.service.pools import CreatePool
from gpuruntime.service.stock.names import batch_name, stock_name
from gpuruntime.service.stock.shrink import REDUCE_STOCK, ReduceStock
from gpuruntime.service.units.update import UNIT_CHANGE
from gpuruntime.service.wiring import Service, watch_operations
from gpuruntime.testing.cluster.access import kubeconfig_document
from gpuruntime.testing.faults import BearerToken, DieAtOnce, FaultProxy, HoldEvents, StallRequests
from tests.product_scenes import Observer
from tests.service.service_scenes import Product, ServiceWorld, looking_at, seeded

Ask = Callable[[Service, ServiceWorld, float], Awaitable[OperationResult | None]]
# Shorter than what a process that died is waited for, and than the clean-up that is held up here.
PATIENCE = 4.0


async def create(service: Service, world: ServiceWorld, within: float = 20.0) -> OperationResult | None:
    return (await service.units.create("order-1", world.creates("demo"), within=within)).performed.result


async def change(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = ChangeObject("used", world.active, FrozenDict({"spec": {"image": "nginx:2"}}))
    return (await service.changes.change(UNIT_CHANGE, "change-1", request, within=within)).performed.result


async def change_nothing(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = ChangeObject("used", world.active, FrozenDict({"spec": {"image": "nginx"}}))
    return (await service.changes.change(UNIT_CHANGE, "change-2", request, within=within)).performed.result


async def delete(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    return (await service.units.delete("return-1", DeleteUnit("used", world.active), within=within)).performed.result


async def remove_stock(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = RemoveObject(stock_name(batch_name("g1.1", "seed"), 2), world.stock)
    return (await service.removals.remove(STOCK_REMOVAL, "remove-1", request, within=within)).result


async def reduce(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = ReduceStock("g1.1", 1, world.stock)
    return (await service.operations.perform("reduce-1", REDUCE_STOCK, request, within=within)).result


async def create_pool(service: Service, world: ServiceWorld, within: float) -> OperationResult | None:
    request = CreatePool("cool", StockPoolSpec("g3.1", 0, cpu="10m", memory="16Mi"), world.stock)
    return (await service.pools.create("pool-1", request, within=within)).performed.result


async def heard(asked: Awaitable[OperationResult | None]) -> OperationResult | None:
    """What a caller hears in time; None is nothing."""
    try:
        return await asked
    except NotFinishedError:
        return None


async def test_a_duplicate_of_a_claim_is_answered_while_the_first_one_is_held_up_in_its_clean_up(
    world: ServiceWorld, observer: Observer, tmp_path: Path
) -> None:
    async with two_replicas(world, tmp_path) as (one, proxy, two):
        (name,) = await seeded(world, one, observer, 1)
        with proxy.inject(StallRequests(), method="DELETE", path=f".*/{world.stock}/gpuunits/.*"):
            first = await create(one.service, world)
            again = [await heard(create(replica.service, world, PATIENCE)) for replica in (two, one)]
            job = two.service.operations.as_known(await record_of(world, "order-1"))
            kept = sorted(await world.units(world.stock))
        await observer.units.until(lambda store: not store.list(world.stock).items)

    assert first is not None
    assert again == [first, first]
    assert (job.status.state, job.status.result) == (SUCCEEDED, first)
    assert kept == [name]
    assert sorted(await world.units(world.active)) == ["demo"]
    assert await world.writes_of_a_second_pass() == []


async def test_a_duplicate_that_cannot_see_what_the_first_one_made_looks_for_it(
    world: ServiceWorld, observer: Observer, tmp_path: Path
) -> None:
    async with two_replicas(world, tmp_path) as (two, proxy, one):
        await seeded(world, one, observer, 1)
        await seeded(world, two, observer, 1)
        with proxy.inject(HoldEvents(), path=".*/gpuunits"), proxy.inject(HoldEvents(), path=".*/operations"):
            first = await create(one.service, world)
            again = await heard(create(two.service, world, PATIENCE))

    assert first is not None
    assert again == first


ASKED: list[Ask] = [create, change, change_nothing, delete, remove_stock, reduce, create_pool]


@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.__name__)
async def test_a_duplicate_is_answered_like_the_first_one_whose_process_died_right_after_its_answer(
    world: ServiceWorld, observer: Observer, tmp_path: Path, ask: Ask
) -> None:
    async with two_replicas(world, tmp_path) as (one, proxy, two):
        await seeded(world, two, observer, 2)
        await two.service.units.create("earlier", world.creates("used"))
        await world.ended(two, "earlier")
        await one.service.unit_reads.informer.until(lambda store: ObjectKey(world.active, "used") in store)
        operations = watch_operations(one.manager, world.active)
        await operations.until(lambda store: ObjectKey(world.active, operation_name("earlier")) in store)

        first = await ask(one.service, world, 20.0)
        proxy.inject(DieAtOnce())
        again = await heard(ask(two.service, world, PATIENCE))

    assert first is not None
    assert again == first


async def test_a_deletion_whose_stock_is_refused_is_answered_on_either_replica_before_the_stock_is_back(
    world: ServiceWorld, observer: Observer, tmp_path: Path
) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/gpuunits.runtime.lokiwager.io": "0"}}}
    quotas = f"/api/v1/namespaces/{world.stock}/resourcequotas"
    async with two_replicas(world, tmp_path) as (one, _proxy, two):
        (name,) = await seeded(world, two, observer, 1)
        await two.service.units.create("earlier", world.creates("used"))
        await world.ended(two, "earlier")
        world.access.admin().create(quotas, quota)

        first = await delete(one.service, world, 20.0)
        again = await heard(delete(two.service, world, PATIENCE))
        state = (await record_of(world, "return-1")).status.state
        world.access.admin().delete(f"{quotas}/none")
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
    """A replica behind a proxy, the proxy, and a replica that nothing happens to."""
    identity = BearerToken(world.account.token)
    async with FaultProxy(world.access.server, world.access.authority, identity=identity) as proxy:
        kubeconfig = directory / "through-the-proxy.kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_document(proxy.url, b"", {})))
        there = evolve(world, account=evolve(world.account, kubeconfig=kubeconfig))
        async with there.product(name="one") as one, world.product(name="two") as two:
            yield one, proxy, two
