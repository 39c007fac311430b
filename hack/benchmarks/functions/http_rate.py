"""Accepted invocations a second over HTTP, 64 in flight: by the API, and by the same API without the publish.

The function is paused, so that nothing but accepting is measured.
"""

import asyncio
import json
from typing import Final

from gpuruntime.api.invocations import function_stream
from gpuruntime.meta import ObjectKey
from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.functions.answering import connected
from hack.benchmarks.functions.deployed import API, API_WITHOUT_PUBLISH, NAMESPACE, Deployed, deployed
from hack.benchmarks.functions.floors import PAYLOAD
from hack.benchmarks.functions.raw_http import connections, in_turn
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["HTTP", "LEFT_OUT", "MEASURES", "OURS"]

OURS: Final = "published"
LEFT_OUT: Final = "publish left out"
_PROCESSES: Final = {OURS: API, LEFT_OUT: API_WITHOUT_PUBLISH}
_SMALLEST_SHARE: Final = 0.6
_IN_FLIGHT: Final = 64
_REQUESTS, _QUICK_REQUESTS = 3_000, 320
_WARM_UPS: Final = 128
_FUNCTION: Final = "paused"
_BODY: Final = json.dumps(
    {"serverlessRequestID": _FUNCTION, "payload": json.loads(PAYLOAD)}, separators=(",", ":")
).encode()
MEASURES: Final = (
    Measure(
        f"a POST, {_IN_FLIGHT} in flight, sync always",
        "ms",
        lambda reading: reading["seconds"] / reading["messages"] * 1000,
        # A rate of 0.6 is a time of 1 / 0.6.
        (Bar(OURS, round(1 / _SMALLEST_SHARE, 3), LEFT_OUT),),
    ),
    Measure(
        f"accepted over HTTP, {_IN_FLIGHT} in flight, sync always",
        "a second",
        lambda reading: reading["messages"] / reading["seconds"],
    ),
)


async def _once(world: Deployed, contender: str, requests: int) -> Reading:
    """One round of a contender, into a queue that is empty before and after."""
    address = world.address(_PROCESSES[contender])
    async with connected(world.nats.options(name="bench")) as bus, connections(address, _IN_FLIGHT) as opened:
        stream = function_stream(ObjectKey(NAMESPACE, _FUNCTION))
        await in_turn(opened, _WARM_UPS, lambda one, _: one.ask("POST", "/serverless/invocations", 202, body=_BODY))
        reading = await in_turn(
            opened, requests, lambda one, _: one.ask("POST", "/serverless/invocations", 202, body=_BODY)
        )
        stored = await bus.jetstream.purge(stream)
        expected = requests + _WARM_UPS if contender == OURS else 0
        if stored != expected:
            raise ObjectsError(f"{contender}: expected {expected} stored requests, got {stored}")
    return reading


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (
        Contender(OURS, (), "`gpuruntime runtime-api`; POST with 1 KiB of payload as JSON"),
        Contender(LEFT_OUT, (), "the same process, which acknowledges without NATS"),
    )


async def _run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    requests = _QUICK_REQUESTS if bench.quick else _REQUESTS
    names = list(_PROCESSES)
    readings: dict[str, list[Reading]] = {name: [] for name in names}
    bench.say("a cluster and the processes start")
    async with deployed(bench.directory / "http") as world:
        scaling = {"minWorkers": 1, "maxWorkers": 1}
        await asyncio.to_thread(world.function, _FUNCTION, scaling=scaling, paused=True)
        for number in range(bench.repeat):
            # They take turns, and take turns in being first: a disk is not as fast at all times.
            for name in names if number % 2 == 0 else names[::-1]:
                bench.say(f"{name}: round {number + 1} of {bench.repeat}")
                readings[name].append(await _once(world, name, requests))
    results = Results(readings)
    return tuple(results.figure(measure) for measure in MEASURES)


HTTP: Final[Scenario[Bench]] = Scenario("http", "invocations are accepted over HTTP", False, _contenders, _run)
