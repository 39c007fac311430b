"""An API server that goes away while many clients order: each order is delivered once, when it is back."""

import asyncio
from functools import partial

import pytest

from e2e.api_processes import ApiProcesses
from e2e.test_api_replicas import (
    CLIENTS,
    SOURCE,
    SPARE,
    STOCK,
    UNITS,
    Orders,
    calling,
    listed,
    processes,
    seeded,
    settled,
    until,
)

__all__ = ["processes"]


async def go_away(processes: ApiProcesses, orders: Orders, after: int, seconds: float) -> None:
    """Stop the API server for so long, once so many orders are delivered."""
    cluster = processes.cluster
    await until(partial(orders.got_to, after))
    # One that runs on takes the nodes for lost, and their pods for not ready; fake nodes never say otherwise again.
    await asyncio.to_thread(cluster.stop_component, "kube-controller-manager")
    await asyncio.to_thread(cluster.stop_component, "kube-apiserver")
    # How long it is away is what this is about: there is no event to wait for.
    await asyncio.sleep(seconds)
    await asyncio.to_thread(cluster.start_component, "kube-apiserver")
    await asyncio.to_thread(cluster.start_component, "kube-controller-manager")


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        pytest.param(60, 5.0, id="sample", marks=pytest.mark.soak),
        pytest.param(150, 30.0, id="whole", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
async def test_orders_that_meet_an_absent_api_server_are_delivered_once_when_it_is_back(
    processes: ApiProcesses, number: int, seconds: float
) -> None:
    async with calling(processes) as callers:
        await seeded(callers, processes, number + SPARE)
        orders = Orders(callers, [f"unit-{index:03}" for index in range(number)])

        async with asyncio.TaskGroup() as group:
            group.create_task(go_away(processes, orders, number // 4, seconds))
            for _ in range(CLIENTS // 2):
                group.create_task(orders.client())
        await until(lambda: settled(processes, number))
        units, stock = listed(processes, UNITS), listed(processes, STOCK)

    assert orders.wrong == []
    assert orders.told == {name: {unit["metadata"]["uid"]} for name, unit in units.items()}
    assert len({unit["metadata"]["annotations"][SOURCE] for unit in units.values()}) == number
    assert len(stock) == SPARE
