"""An API server that is down while many clients create units: each unit is created once, when it is back."""

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
    api_clients,
    listed,
    processes,
    seeded,
    settled,
    until,
)

__all__ = ["processes"]


async def stop_api_server(processes: ApiProcesses, orders: Orders, after: int, seconds: float) -> None:
    """Stop the API server for `seconds` after `after` units were created."""
    cluster = processes.cluster
    await until(partial(orders.has_reached, after))
    # A running controller manager would mark the nodes as lost and their pods as not ready, which kwok never reverts.
    await asyncio.to_thread(cluster.stop_component, "kube-controller-manager")
    await asyncio.to_thread(cluster.stop_component, "kube-apiserver")
    # The length of the outage is the subject of the test: there is no event to await.
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
async def test_units_requested_while_the_api_server_is_down_are_created_once_when_it_is_back(
    processes: ApiProcesses, number: int, seconds: float
) -> None:
    async with api_clients(processes) as callers:
        await seeded(callers, processes, number + SPARE)
        orders = Orders(callers, [f"unit-{index:03}" for index in range(number)])

        async with asyncio.TaskGroup() as group:
            group.create_task(stop_api_server(processes, orders, number // 4, seconds))
            for _ in range(CLIENTS // 2):
                group.create_task(orders.client())
        await until(lambda: settled(processes, number))
        units, stock = listed(processes, UNITS), listed(processes, STOCK)

    assert orders.wrong == []
    assert orders.uids == {name: {unit["metadata"]["uid"]} for name, unit in units.items()}
    assert len({unit["metadata"]["annotations"][SOURCE] for unit in units.values()}) == number
    assert len(stock) == SPARE
