"""10,000 invocations wait in a queue, and then run: none may be lost, and the activator may not hold them in memory."""

import asyncio
import json
import time
from typing import Final

from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.functions.deployed import ACTIVATOR, API, Deployed, deployed
from hack.benchmarks.functions.floors import PAYLOAD
from hack.benchmarks.functions.raw_http import Connection, connections, in_turn
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["BACKLOG", "MEASURES", "OURS"]

OURS: Final = "activator"
_MOST_MEGABYTES: Final = 50.0
_INVOCATIONS, _QUICK_INVOCATIONS = 10_000, 200
_IN_FLIGHT: Final = 32
_WARM_UPS: Final = 50
_RUN_SECONDS: Final = 900.0
_LOOK_SECONDS: Final = 0.5
_FUNCTION: Final = "backlog"
_SUCCEEDED: Final = "succeeded"
_BODY: Final = json.dumps(
    {"serverlessRequestID": _FUNCTION, "payload": json.loads(PAYLOAD)}, separators=(",", ":")
).encode()
MEASURES: Final = (
    Measure("accepted invocations without a result", "", lambda reading: reading["lost"], (Bar(OURS, 0.0),)),
    Measure(
        "memory, from before the first to its highest",
        "MB",
        lambda reading: reading["megabytes"],
        (Bar(OURS, _MOST_MEGABYTES),),
    ),
    Measure("runs, from the resume of the function on", "a second", lambda reading: reading["rate"]),
)


def _function(world: Deployed, *, paused: bool) -> None:
    scaling = {"minWorkers": 1, "maxWorkers": 1, "concurrency": 8}
    world.function(_FUNCTION, scaling=scaling, paused=paused, invocation={"maxQueued": 2 * _INVOCATIONS})


async def _accepted(one: Connection) -> str:
    said = json.loads(await one.ask("POST", "/serverless/invocations", 202, body=_BODY))
    invocation_id: str = said["data"]["invocationID"]
    return invocation_id


async def _state(one: Connection, invocation_id: str, wait: int = 0) -> str:
    query = f"?serverlessRequestID={_FUNCTION}&wait={wait}"
    said = json.loads(await one.ask("GET", f"/serverless/invocations/{invocation_id}{query}", 200, 404))
    state: str = said.get("data", {}).get("state", "missing")
    return state


async def _drained(one: Connection) -> None:
    """Wait until nothing is queued and nothing runs."""
    deadline = time.monotonic() + _RUN_SECONDS
    while True:
        queue = json.loads(await one.ask("GET", f"/serverless/functions/{_FUNCTION}/queue", 200))["data"]
        if not queue["queued"] and not queue["running"]:
            return
        if time.monotonic() > deadline:
            raise ObjectsError(f"after {_RUN_SECONDS:.0f} s there are still {queue['queued']} queued")
        await asyncio.sleep(_LOOK_SECONDS)  # there is no event to await


async def _once(bench: Bench, world: Deployed, invocations: int) -> Reading:
    ids: list[str] = []
    states: list[str] = []

    async def invoke(one: Connection, _number: int) -> None:
        ids.append(await _accepted(one))

    async def look(one: Connection, number: int) -> None:
        states.append(await _state(one, ids[number]))

    await asyncio.to_thread(_function, world, paused=False)
    async with connections(world.address(API), _IN_FLIGHT) as opened:
        # A process that has never dispatched has not loaded all that it needs.
        for _ in range(_WARM_UPS):
            await _state(opened[0], await _accepted(opened[0]), wait=60)
        await asyncio.to_thread(_function, world, paused=True)
        before = world.memory(ACTIVATOR, "VmRSS")
        bench.say(f"{invocations} invocations are queued")
        await in_turn(opened, invocations, invoke)
        bench.say("they run")
        await asyncio.to_thread(_function, world, paused=False)
        began = time.perf_counter()
        await _drained(opened[0])
        seconds = time.perf_counter() - began
        bench.say("their results are read")
        await in_turn(opened, invocations, look)
    return {
        "lost": float(invocations - states.count(_SUCCEEDED)),
        "megabytes": world.memory(ACTIVATOR, "VmHWM") - before,
        "rate": invocations / seconds,
    }


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (Contender(OURS, (), f"{_INVOCATIONS} invocations of 1 KiB, one worker with 8 at a time, one round"),)


async def _run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    bench.say("a cluster and the processes start")
    async with deployed(bench.directory / "backlog") as world:
        found = await _once(bench, world, _QUICK_INVOCATIONS if bench.quick else _INVOCATIONS)
    results = Results({OURS: [found]})
    return tuple(results.figure(measure) for measure in MEASURES)


BACKLOG: Final[Scenario[Bench]] = Scenario("backlog", "a long queue, and its end", False, _contenders, _run)
