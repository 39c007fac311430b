"""Stocks and VMs on a real control plane."""

import asyncio

import pytest

from gpuruntime.api.rest.machines import DeleteStocks, NewStocks, NewVM
from gpuruntime.meta import ObjectKey
from gpuruntime.service.compat.cluster import ClusterMachines
from gpuruntime.service.compat.machines import CreatedStocks
from gpuruntime.service.errors import InsufficientCapacityError, InvalidRequestError, ObjectNotFoundError
from tests.product_scenes import Observer
from tests.service.service_scenes import Product, ServiceWorld

PAIR = NewStocks("g1.1", 2, cpu="10m", memory="16Mi")


def machines_of(world: ServiceWorld, product: Product) -> ClusterMachines:
    service = product.service
    return ClusterMachines(service.operations, service.units, service.unit_reads, world.active, world.stock)


async def available_pair(product: Product, machines: ClusterMachines) -> CreatedStocks:
    """A pair of stocks, each available. The request that creates them waits for a limited time only."""
    created = await machines.create_stocks("seed", PAIR)
    await product.service.unit_reads.informer.until(
        lambda _: [stock.status for stock in machines.stocks()] == ["available"] * 2
    )
    return created


async def test_a_vm_takes_a_stock_and_returns_it_on_deletion(world: ServiceWorld, observer: Observer) -> None:
    async with world.product() as product:
        machines = machines_of(world, product)
        created = await available_pair(product, machines)
        made = await machines.create_vm("order", NewVM(tenant_id="t", tenant_name="team", spec_name="g1.1"))
        await observer.ready(ObjectKey(world.active, made.vm.id))
        again = await machines.create_vm("order", NewVM(tenant_id="t", tenant_name="team", spec_name="g1.1"))
        seeded_again = await machines.create_stocks("seed", PAIR)
        await machines.delete_vm("end", made.vm.id)
        await product.service.unit_reads.informer.until(
            lambda _: [stock.status for stock in machines.stocks()] == ["available"] * 2
        )
        replayed = await machines.create_vm("order", NewVM(tenant_id="t", tenant_name="team", spec_name="g1.1"))

    assert not created.is_replay
    # The cache of the process may show the second one as ready before the first.
    taken = {stock.id: made.vm.id if stock.id == made.vm.stock_id else None for stock in created.stocks}
    assert (list(taken.values()).count(made.vm.id), made.vm.tenant_id, made.vm.tenant_name) == (1, "t", "team")
    assert (again.vm.id, again.is_replay) == (made.vm.id, True)
    assert {stock.id: stock.vm_id for stock in seeded_again.stocks} == taken
    assert (seeded_again.is_ready, seeded_again.is_replay) == (True, True)
    assert (replayed.vm.status, replayed.vm.deleted) == ("deleted", True)
    assert await world.writes_of_a_second_pass() == []


async def test_a_named_stock_is_taken_and_no_other(world: ServiceWorld) -> None:
    async with world.product() as product:
        machines = machines_of(world, product)
        _, second = (await available_pair(product, machines)).stocks

        made = await machines.create_vm("order", NewVM(stock_id=second.id))
        await product.service.unit_reads.informer.until(lambda store: len(store.list(world.stock).items) == 1)
        with pytest.raises(InsufficientCapacityError, match=second.id):
            await machines.create_vm("other", NewVM(stock_id=second.id))
        found = await machines.vm(made.vm.id)

    assert (made.vm.stock_id, found.stock_id, found.spec_name) == (second.id, second.id, "g1.1")


async def test_stocks_are_deleted_all_or_none_and_never_those_in_use(world: ServiceWorld) -> None:
    async with world.product() as product:
        machines = machines_of(world, product)
        await available_pair(product, machines)
        made = await machines.create_vm("order", NewVM(spec_name="g1.1"))
        await product.service.unit_reads.informer.until(lambda store: len(store.list(world.stock).items) == 1)

        with pytest.raises(InsufficientCapacityError, match="1 stock units"):
            await machines.delete_stocks("less", DeleteStocks("g1.1", 2))
        deleted = [await machines.delete_stocks("less", DeleteStocks("g1.1", 1)) for _ in range(2)]
        await product.service.unit_reads.informer.until(lambda store: not store.list(world.stock).items)
        left = machines.stocks()

    assert [one.number for one in deleted] == [1, 1]
    assert [(stock.id, stock.status) for stock in left] == [(made.vm.stock_id, "allocated")]
    assert await world.units(world.stock) == {}


async def test_of_two_concurrent_deletions_both_succeed_or_one_finds_too_few_stocks(
    world: ServiceWorld,
) -> None:
    async with world.product() as product:
        machines = machines_of(world, product)
        await machines.create_stocks("many", NewStocks("g1.1", 4, cpu="10m", memory="16Mi"))
        await machines.create_stocks("few", NewStocks("g1.2", 2, cpu="10m", memory="16Mi"))

        both = await asyncio.gather(*(machines.delete_stocks(name, DeleteStocks("g1.1", 2)) for name in "ab"))
        one = await asyncio.gather(
            *(machines.delete_stocks(name, DeleteStocks("g1.2", 2)) for name in "cd"), return_exceptions=True
        )

    refused = [error for error in one if isinstance(error, BaseException)]
    assert [deleted.number for deleted in both] == [2, 2]
    assert [type(error) for error in refused] == [InsufficientCapacityError]
    assert await world.units(world.stock) == {}


async def test_a_replay_reports_stocks_that_are_gone_as_deleted_at_once(
    world: ServiceWorld,
) -> None:
    async with world.product() as product:
        machines = machines_of(world, product)
        created = await available_pair(product, machines)
        await machines.delete_stocks("less", DeleteStocks("g1.1", 1))
        (left,) = await world.units(world.stock)

        again = await asyncio.wait_for(machines.create_stocks("seed", PAIR), 10)

    assert (again.is_ready, again.is_replay) == (True, True)
    assert [(stock.id, stock.status, stock.deleted) for stock in again.stocks] == [
        (stock.id, "available", False) if stock.id == left else (stock.id, "deleted", True) for stock in created.stocks
    ]


async def test_an_invalid_name_is_the_name_of_no_vm(world: ServiceWorld) -> None:
    async with world.product() as product:
        machines = machines_of(world, product)

        for name in ("foo/status", "..", "a?b"):
            with pytest.raises(ObjectNotFoundError):
                await machines.delete_vm("end", name)

    assert await world.operations() == ()


async def test_stocks_that_fit_no_node_are_returned_as_creating_after_the_timeout(world: ServiceWorld) -> None:
    async with world.product(patience=3.0) as product:
        machines = machines_of(world, product)
        asked = NewStocks("huge", 1, cpu="100k", memory="16Mi")

        created = await machines.create_stocks("seed", asked)
        with pytest.raises(InvalidRequestError, match="memory"):
            await machines.create_stocks("bad", NewStocks("g1.1", 1, memory="much"))
        with pytest.raises(InsufficientCapacityError, match="'huge'"):
            await asyncio.wait_for(machines.create_vm("order", NewVM(spec_name="huge")), 10)

    assert (created.is_ready, [stock.status for stock in created.stocks]) == (False, ["creating"])
    assert "nodes are available" in (created.stocks[0].message or "")
