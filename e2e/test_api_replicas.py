"""Two processes of the API that are killed while many clients use them, and an API server that goes away."""

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
from e2e.api_followers import Follower, true_versions
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
async def calling(processes: ApiProcesses) -> AsyncIterator[Callers]:
    """Callers of two replicas."""
    replicas = [await asyncio.to_thread(processes.add, name) for name in ("one", "two")]
    patience = aiohttp.ClientTimeout(total=40)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=processes.credentials, timeout=patience, connector=connector) as session:
        yield Callers(session, replicas, Random(8))


async def seeded(callers: Callers, processes: ApiProcesses, units: int) -> None:
    """So much stock, ready."""
    body = {"operationID": "seed", "specName": "g1.1", "memory": "16Mi", "gpu": 1, "replicas": units}
    answer = await callers.insist("POST", "/operator/stock-units", body)
    assert answer.status == 202, answer
    await until(lambda: sum(map(is_ready, listed(processes, STOCK).values())) == units)


async def until(holds: Callable[[], bool]) -> None:
    """For what is no event to us; the test's timeout catches what never comes."""
    while not await asyncio.to_thread(holds):  # noqa: ASYNC110 - see above
        await asyncio.sleep(0.3)


def listed(processes: ApiProcesses, collection: str) -> Mapping[str, Any]:
    items = processes.access.admin().get(collection)["items"]
    return {item["metadata"]["name"]: item for item in items}


def is_ready(unit: Any) -> bool:
    claimed = "runtime.lokiwager.io/claim-id" in unit["metadata"].get("annotations", {})
    return unit.get("status", {}).get("phase") == "Ready" and (
        not claimed or unit["metadata"]["namespace"] == "runtime-instance"
    )


@define
class Orders:
    """What is ordered, and what was delivered: the UIDs that anybody was ever told, by operationID."""

    callers: Callers
    waiting: list[str]
    told: dict[str, set[str]] = field(factory=dict)
    wrong: list[str] = field(factory=list)

    def got_to(self, number: int) -> bool:
        return len(self.told) + len(self.wrong) >= number

    async def client(self) -> None:
        """Order one thing after another; each twice at once, then again elsewhere, and look for it there."""
        while self.waiting:
            name = self.waiting.pop()
            body = {"operationID": f"order-{name}", "name": name, "specName": "g1.1", "image": "nginx"}
            both = await asyncio.gather(*(self.callers.insist("POST", "/gpu-units", body) for _ in range(2)))
            first = both[0]
            token = first.headers.get("X-Resource-Version", "1")
            found = await self.callers.insist("GET", f"/gpu-units/{name}", but=first.replica, X_Resource_Version=token)
            again = await self.callers.insist("POST", "/gpu-units", body, but=first.replica)
            statuses = sorted(answer.status for answer in both)
            if statuses[0] != 200 or statuses[1] > 201 or (found.status, again.status) != (200, 200):
                self.wrong.append(f"{name}: {both} {found} {again}")
            else:
                self.told[name] = {answer.data["uid"] for answer in (*both, found, again)}


async def kill_in_turns(processes: ApiProcesses, orders: Orders, number: int, kills: int) -> None:
    """Kill one replica after the other as the orders get on, and start each again; one of them is always there."""
    for turn in range(kills):
        await until(partial(orders.got_to, number * (turn + 1) // (kills + 1)))
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
async def test_each_order_is_delivered_once_although_the_processes_are_killed_and_followers_miss_nothing(
    processes: ApiProcesses, number: int, kills: int
) -> None:
    async with calling(processes) as callers, true_versions(processes.access, UNITS) as truth:
        await seeded(callers, processes, number + SPARE)
        followers = [Follower(callers) for _ in range(FOLLOWERS)]
        following = [asyncio.create_task(follower.follow()) for follower in followers]
        orders = Orders(callers, [f"unit-{index:03}" for index in range(number)])

        async with asyncio.TaskGroup() as group:
            group.create_task(kill_in_turns(processes, orders, number, kills))
            for _ in range(CLIENTS):
                group.create_task(orders.client())
        await until(lambda: settled(processes, number))
        units, stock = listed(processes, UNITS), listed(processes, STOCK)
        final = {name: int(unit["metadata"]["resourceVersion"]) for name, unit in units.items()}
        await until(lambda: all(follower.state == final for follower in followers))
        for task in following:
            task.cancel()
        await asyncio.wait(following)

    assert orders.wrong == []
    assert orders.told == {name: {unit["metadata"]["uid"]} for name, unit in units.items()}
    assert len({unit["metadata"]["annotations"][SOURCE] for unit in units.values()}) == number
    assert len(stock) == SPARE
    assert [follower.older for follower in followers] == [[]] * FOLLOWERS
    assert [missed(follower, truth) for follower in followers] == [[]] * FOLLOWERS
    assert any(len(follower.spans) < follower.visits for follower in followers)


def settled(processes: ApiProcesses, number: int) -> bool:
    """Whether every order is delivered and ready, what is left of the stock is free, and nobody works any more."""
    units, stock = listed(processes, UNITS), listed(processes, STOCK)
    operations = listed(processes, OPERATIONS).values()
    return (
        (len(units), len(stock)) == (number, SPARE)
        and all(map(is_ready, (*units.values(), *stock.values())))
        and all(operation["status"].get("state") == "succeeded" for operation in operations)
    )


def missed(follower: Follower, truth: list[int]) -> list[int]:
    """The versions that a follower should have been told between two resets and was not, and those made up."""
    wrong: set[int] = set()
    for span in follower.spans:
        end = max(span.steps, default=span.start)
        wrong |= {version for version in truth if span.start < version <= end} ^ set(span.steps)
    return sorted(wrong)


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(5, id="sample"),
        pytest.param(30, id="whole", marks=[pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
async def test_while_the_api_server_is_away_reads_tell_their_age_and_writes_are_for_later(
    processes: ApiProcesses, seconds: int
) -> None:
    async with calling(processes) as callers:
        order = {"operationID": "cold", "name": "cold", "specName": "g1.1", "image": "nginx", "coldStart": True}
        await callers.insist("POST", "/gpu-units?wait=Ready", order)
        late = {
            "operationID": "late",
            **{key: order[key] for key in ("specName", "image", "coldStart")},
            "name": "late",
        }
        away: list[tuple[int, int, int, str]] = []

        await asyncio.to_thread(processes.cluster.stop_component, "kube-apiserver")
        until_then = time.monotonic() + seconds
        while time.monotonic() < until_then:
            for replica in callers.replicas:
                read = await callers.once(replica, "GET", "/gpu-units/cold")
                write = await callers.once(replica, "POST", "/gpu-units", late)
                health = await callers.once(replica, "GET", "/health")
                assert (health.status, health.data["kubernetesConnected"]) == (200, False)
                away.append((read.status, int(read.headers["Age"]), write.status, write.headers.get("Retry-After", "")))
        await asyncio.to_thread(processes.cluster.start_component, "kube-apiserver")
        made = await callers.insist("POST", "/gpu-units", late)
        ready = await callers.insist("GET", "/gpu-units/late/wait?for=Ready&timeout=30")
        while ready.status == 202:
            ready = await callers.insist("GET", "/gpu-units/late/wait?for=Ready&timeout=30")
        ends = [replica.name for replica in callers.replicas if replica.name in processes.children.exits()]

    assert {(read, write, after.isdigit()) for read, _, write, after in away} == {(200, 503, True)}
    assert max(age for _, age, _, _ in away) >= seconds - 3
    assert (made.status in {200, 201}, ready.status, ready.data["phase"]) == (True, 200, "Ready")
    assert ends == []
