"""Faults on the path of an invocation: what was accepted ends exactly once, and runs once unless its worker died.

All processes are real, and are killed with SIGKILL while they work.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.product.faults.callers import Callers, Order, ends
from tests.product.faults.split_functions import ACTIVATORS, APIS, RESULT_STORE, SplitFunctions, functions


async def in_thread(*acts: Callable[[], None]) -> None:
    for act in acts:
        await asyncio.to_thread(act)


async def until_listed(callers: Callers, function: str, expected: set[str]) -> Counter[str]:
    async with asyncio.timeout(120):
        while set(found := await callers.listed(function)) != expected:  # noqa: ASYNC110 - see below
            await asyncio.sleep(0.2)  # the archive follows, and has no event
    return found


async def test_killed_processes_lose_nothing_and_only_a_dead_worker_executes_again(tmp_path: Path) -> None:
    random = Random(1)
    with functions(tmp_path) as world:
        await in_thread(lambda: world.deploy("a", workers=2, concurrency=4))
        await in_thread(lambda: world.deploy("b", workers=1, concurrency=4))
        orders = [Order("ab"[number % 2], number, random.uniform(0.05, 0.8)) for number in range(120)]
        async with Callers(world.urls) as callers:
            async with asyncio.TaskGroup() as group:
                group.create_task(callers.send(orders, at_once=8))
                await in_thread(lambda: world.restart(APIS[0]), lambda: world.restart(ACTIVATORS[0]))
                await in_thread(world.nats.kill, world.nats.start, lambda: world.restart(RESULT_STORE))
            ended = await ends(callers, orders)
            executions = Counter(world.executions())
            listed = await until_listed(callers, "a", {order.id for order in orders if order.function == "a"})

            later = [Order("a", number, 3.0) for number in range(1000, 1008)]
            await callers.send(later)
            while len(world.executions()) < len(orders) + len(later):  # noqa: ASYNC110 - see below
                await asyncio.sleep(0.05)  # the function writes a file
            await in_thread(world.kill_a_sidecar)
            after = await ends(callers, later)

        assert {end["state"] for end in ended.values()} == {"succeeded"}
        assert executions == Counter(order.id for order in orders)
        assert max(listed.values()) == 1
        again = Counter(world.executions())
        assert {end["state"] for end in after.values()} == {"succeeded"}
        assert all(1 <= again[order.id] <= after[order.id]["attempt"] for order in later)
        assert any(again[order.id] == 2 for order in later)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_two_thousand_invocations_under_a_fault_a_second(tmp_path: Path) -> None:
    random = Random(7)
    with functions(tmp_path) as world:
        for name in ("a", "b", "c"):
            world.deploy(name, workers=2, concurrency=8, maxAttempts=100)
        orders = [Order(random.choice("abc"), number, random.uniform(0.1, 5.0)) for number in range(2000)]
        async with Callers(world.urls) as callers:
            async with asyncio.TaskGroup() as group:
                load = group.create_task(callers.complete(orders, at_once=90))
                await faults(world, random, load)
            ended = load.result()
            for name in ("a", "b", "c"):
                listed = await until_listed(callers, name, {order.id for order in orders if order.function == name})
                assert max(listed.values()) == 1

        executions = Counter(world.executions())
        states = Counter(end["state"] for end in ended.values())
        failed = [end for end in ended.values() if end["state"] != "succeeded"]
        repeated = {name: count for name, count in executions.items() if count > 1}
        print(f"states {states}, executed more than once {len(repeated)}, duplicates answered {callers.duplicates}")
        assert set(executions) == {order.id for order in orders}
        # A program that was killed fails what it ran; nothing else fails.
        assert {end.get("failureClass") for end in failed} <= {"framework_error"}
        assert all(count <= ended[name]["attempt"] for name, count in repeated.items())


async def faults(world: SplitFunctions, random: Random, load: "asyncio.Task[object]") -> None:
    """One fault a second until the load has ended; a killed process is started again, as a kubelet would."""

    async def frozen_nats() -> None:
        world.nats.pause()
        await asyncio.sleep(5)
        world.nats.resume()

    async def absent_nats(seconds: float) -> None:
        await in_thread(world.nats.kill)
        await asyncio.sleep(seconds)
        await in_thread(world.nats.start)

    processes = (*APIS, *ACTIVATORS, RESULT_STORE, "controller-manager")
    turns = 0
    while not load.done():
        turns += 1
        match random.randrange(12):
            case 0:
                await absent_nats(30 if turns % 4 == 0 else 1)
            case 1:
                await frozen_nats()
            case 2:
                await in_thread(world.kill_a_sidecar)
            case 3:
                await in_thread(world.kill_a_program)
            case _:
                await in_thread(partial(world.restart, random.choice(processes)))
        await asyncio.wait([load], timeout=1)
