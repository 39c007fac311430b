"""Two API processes that are killed while many clients use them, and an API server that is down."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import pytest
from attrs import define, field

from e2e.api_callers import Callers
from e2e.api_followers import Follower, api_server_versions
from e2e.api_processes import ApiProcesses, Replica, api_processes
from gpuruntime.testing import NodeShape

UNITS: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-instance/gpuunits"
STOCK: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/runtime-stock/gpuunits"
OPERATIONS: Final = "/apis/runtime.lokiwager.io/v1alpha1/namespaces/gpuruntime-system/operations"
SOURCE: Final = "runtime.lokiwager.io/source-stock-uid"
CLIENTS: Final = 50
FOLLOWERS: Final = 4
SPARE: Final = 6
BIG: Final = NodeShape("big", gpus=1000, cpu="1000", memory="16Ti", pods=2000)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[ApiProcesses]:
    with api_processes(tmp_path, BIG) as made:
        yield made


@asynccontextmanager
async def api_clients(processes: ApiProcesses) -> AsyncIterator[Callers]:
    """Clients of two replicas."""
    replicas = [await asyncio.to_thread(processes.add, name) for name in ("one", "two")]
    patience = aiohttp.ClientTimeout(total=40)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=processes.credentials, timeout=patience, connector=connector) as session:
        yield Callers(session, replicas, Random(8))


async def seeded(callers: Callers, processes: ApiProcesses, units: int) -> None:
    """Seed stock and wait until it is ready."""
    body = {"operationID": "seed", "specName": "g1.1", "memory": "16Mi", "gpu": 1, "replicas": units}
    answer = await callers.send_until_answered("POST", "/operator/stock-units", body)
    assert answer.status == 202, answer
    await until(lambda: sum(map(is_ready, listed(processes, STOCK).values())) == units)


async def until(holds: Callable[[], bool]) -> None:
    """Poll a condition; the timeout of the test ends the wait."""
    while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.3)


def listed(processes: ApiProcesses, collection: str) -> Mapping[str, Any]:
    items = processes.access.admin().get(collection)["items"]
    return {item["metadata"]["name"]: item for item in items}


def is_ready(unit: Any) -> bool:
    claimed = "runtime.lokiwager.io/stock-claim-id" in unit["metadata"].get("annotations", {})
    return unit.get("status", {}).get("phase") == "Ready" and (
        not claimed or unit["metadata"]["namespace"] == "runtime-instance"
    )


@define
class Orders:
    """The requested units, and the UIDs in all responses by name."""

    callers: Callers
    waiting: list[str]
    uids: dict[str, set[str]] = field(factory=dict)
    wrong: list[str] = field(factory=list)

    def has_reached(self, number: int) -> bool:
        return len(self.uids) + len(self.wrong) >= number

    async def client(self) -> None:
        """Create units one by one: each twice at once, then again on another replica, and read it there."""
        while self.waiting:
            name = self.waiting.pop()
            body = {"operationID": f"order-{name}", "name": name, "specName": "g1.1", "image": "nginx"}
            both = await asyncio.gather(
                *(self.callers.send_until_answered("POST", "/gpu-units", body) for _ in range(2))
            )
            first = both[0]
            token = first.headers.get("X-Resource-Version", "1")
            found = await self.callers.send_until_answered(
                "GET", f"/gpu-units/{name}", avoid=first.replica, X_Resource_Version=token
            )
            again = await self.callers.send_until_answered("POST", "/gpu-units", body, avoid=first.replica)
            statuses = sorted(answer.status for answer in both)
            if statuses[0] != 200 or statuses[1] > 201 or (found.status, again.status) != (200, 200):
                self.wrong.append(f"{name}: {both} {found} {again}")
            else:
                self.uids[name] = {answer.data["uid"] for answer in (*both, found, again)}


async def kill_in_turns(processes: ApiProcesses, orders: Orders, number: int, kills: int) -> None:
    """Kill and restart the replicas in turn as the orders progress; one of them is always up."""
    for turn in range(kills):
        await until(partial(orders.has_reached, number * (turn + 1) // (kills + 1)))
        victim: Replica = orders.callers.replicas[turn % 2]
        await asyncio.to_thread(processes.kill, victim)
        processes.start(victim)
        await until(victim.is_ready)


@pytest.mark.parametrize(
    ("number", "kills"),
    [
        pytest.param(60, 2, id="sample"),
        pytest.param(500, 10, id="whole", marks=[pytest.mark.soak, pytest.mark.timeout(1500)]),
    ],
)
async def test_each_unit_is_created_once_while_processes_are_killed_and_followers_miss_no_event(
    processes: ApiProcesses, number: int, kills: int
) -> None:
    async with api_clients(processes) as callers, api_server_versions(processes.access, UNITS) as expected:
        await seeded(callers, processes, number + SPARE)
        followers = [Follower(callers) for _ in range(FOLLOWERS)]
        following = [asyncio.create_task(follower.follow()) for follower in followers]
        orders = Orders(callers, [f"unit-{index:03}" for index in range(number)])

        async with asyncio.TaskGroup() as group:
            group.create_task(kill_in_turns(processes, orders, number, kills))
            for _ in range(CLIENTS):
                group.create_task(orders.client())
        await until(lambda: settled(processes, number))
        # The stages of a unit may be written after it is ready.
        await until(lambda: is_followed(processes, followers, expected))
        units, stock = listed(processes, UNITS), listed(processes, STOCK)
        for task in following:
            task.cancel()
        await asyncio.wait(following)

    assert orders.wrong == []
    assert orders.uids == {name: {unit["metadata"]["uid"]} for name, unit in units.items()}
    assert len({unit["metadata"]["annotations"][SOURCE] for unit in units.values()}) == number
    assert len(stock) == SPARE
    assert [follower.older for follower in followers] == [[]] * FOLLOWERS
    assert [missed(follower, expected) for follower in followers] == [[]] * FOLLOWERS
    assert any(len(follower.spans) < follower.visits for follower in followers)


def settled(processes: ApiProcesses, number: int) -> bool:
    """Whether every unit is ready, the remaining stock is unclaimed, and all Operations have succeeded."""
    units, stock = listed(processes, UNITS), listed(processes, STOCK)
    operations = listed(processes, OPERATIONS).values()
    return (
        (len(units), len(stock)) == (number, SPARE)
        and all(map(is_ready, (*units.values(), *stock.values())))
        and all(operation["status"].get("state") == "succeeded" for operation in operations)
    )


def is_followed(processes: ApiProcesses, followers: list[Follower], expected: list[int]) -> bool:
    """Whether the followers, and the watch to compare with, have received the newest version of every unit."""
    units = listed(processes, UNITS)
    newest = {name: int(unit["metadata"]["resourceVersion"]) for name, unit in units.items()}
    return set(newest.values()) <= set(expected) and all(follower.state == newest for follower in followers)


def missed(follower: Follower, expected: list[int]) -> list[int]:
    """The versions that a follower missed between two resets, and those that never existed."""
    wrong: set[int] = set()
    for span in follower.spans:
        end = max(span.steps, default=span.start)
        wrong |= {version for version in expected if span.start < version <= end} ^ set(span.steps)
    return sorted(wrong)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(5, id="sample"),
        pytest.param(30, id="whole", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
async def test_while_the_api_server_is_down_reads_have_an_age_and_writes_get_503(
    processes: ApiProcesses, seconds: int
) -> None:
    async with api_clients(processes) as callers:
        order = {"operationID": "cold", "name": "cold", "specName": "g1.1", "image": "nginx", "coldStart": True}
        await callers.send_until_answered("POST", "/gpu-units?wait=Ready", order)
        late = {
            "operationID": "late",
            **{key: order[key] for key in ("specName", "image", "coldStart")},
            "name": "late",
        }
        while_down: list[tuple[int, int, int, str]] = []

        await asyncio.to_thread(processes.cluster.stop_component, "kube-apiserver")
        until_then, is_last = time.monotonic() + seconds, False
        # The last round begins when it has been down for that long, however slow the rounds are.
        while not is_last:
            is_last = time.monotonic() >= until_then
            for replica in callers.replicas:
                read = await callers.once(replica, "GET", "/gpu-units/cold")
                write = await callers.once(replica, "POST", "/gpu-units", late)
                health = await callers.once(replica, "GET", "/health")
                assert (health.status, health.data["kubernetesConnected"]) == (200, False)
                while_down.append(
                    (read.status, int(read.headers["Age"]), write.status, write.headers.get("Retry-After", ""))
                )
        await asyncio.to_thread(processes.cluster.start_component, "kube-apiserver")
        made = await callers.send_until_answered("POST", "/gpu-units", late)
        ready = await callers.send_until_answered("GET", "/gpu-units/late/wait?for=Ready&timeout=30")
        while ready.status == 202:
            ready = await callers.send_until_answered("GET", "/gpu-units/late/wait?for=Ready&timeout=30")
        ends = [replica.name for replica in callers.replicas if replica.name in processes.children.exits()]

    assert {(read, write, after.isdigit()) for read, _, write, after in while_down} == {(200, 503, True)}
    assert max(age for _, age, _, _ in while_down) >= seconds - 3
    assert (made.status in {200, 201}, ready.status, ready.data["phase"]) == (True, 200, "Ready")
    assert ends == []
