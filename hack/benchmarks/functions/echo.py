"""A synchronous echo from HTTP to HTTP, one in flight: its latency beside its floors, its CPU beside an HTTP echo's.

Floors and invocations take turns in one run, and share the machine with the same idle processes. The API, the activator
and the sidecar are processes of their own. Their CPU is that of the whole window, with what they do besides.
"""

import asyncio
import json
from typing import Final

from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.api.latencies import Latencies, one_by_one
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.functions.answering import answering, cpu_seconds
from hack.benchmarks.functions.deployed import ACTIVATOR, API, Deployed, deployed
from hack.benchmarks.functions.floors import FLOOR, PAYLOAD, Floors, measure_floors
from hack.benchmarks.functions.raw_http import Connection, connection
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["ECHO", "HTTP_ECHO", "MEASURES", "OURS", "floor_reading", "reading"]

OURS: Final = "invocation"
HTTP_ECHO: Final = "aiohttp echo"
SIDECAR: Final = "sidecar"
_PARTS: Final = (API, ACTIVATOR, SIDECAR)
_LARGEST_P50, _LARGEST_P95, _LARGEST_CPU = 2.0, 3.0, 2.5
_TIMES, _QUICK_TIMES = 500, 30
_WARM_UPS: Final = 20
_FUNCTION: Final = "echo"
BODY: Final = json.dumps(
    {"serverlessRequestID": _FUNCTION, "mode": "sync", "payload": json.loads(PAYLOAD)}, separators=(",", ":")
).encode()
MEASURES: Final = (
    Measure(
        "sync echo, 1 in flight, sync always, p50; its floor is the sum of its steps",
        "ms",
        lambda reading: reading.get("p50"),
        (Bar(OURS, _LARGEST_P50, FLOOR),),
    ),
    Measure(
        "sync echo, 1 in flight, sync always, p95; its floor is the sum of its steps",
        "ms",
        lambda reading: reading.get("p95"),
        (Bar(OURS, _LARGEST_P95, FLOOR),),
    ),
    Measure(
        "CPU of an invocation, by process",
        "ms",
        lambda reading: reading.get("cpu"),
        tuple(Bar(part, _LARGEST_CPU, HTTP_ECHO) for part in _PARTS),
    ),
)


def floor_reading(floors: Floors) -> Reading:
    """What bounds an invocation. The medians are the floor of both: a slow step is no excuse for a slow invocation."""
    return {"p50": floors.sum_p50, "p95": floors.sum_p50}


def reading(latencies: Latencies) -> Reading:
    """The latency of invocations, in milliseconds."""
    return {"p50": latencies.p50, "p95": latencies.p95}


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (
        Contender(FLOOR, (), "publish, create-only commit, two requests, call over a unix socket: the sum of the p50"),
        Contender(OURS, (), "POST with mode sync and 1 KiB of payload as JSON, one worker"),
        Contender(HTTP_ECHO, (), "POST of 1 KiB, on the same event loop"),
        *(Contender(part, (), "its process, for an invocation") for part in _PARTS),
    )


async def _invocations(world: Deployed, opened: Connection, times: int) -> dict[str, Reading]:
    """The readings of one round."""
    sidecars = world.sidecars()
    if len(sidecars) != 1:
        raise ObjectsError(f"expected the sidecar of one worker, got {len(sidecars)}")
    pids = {API: world.pids[API], ACTIVATOR: world.pids[ACTIVATOR], SIDECAR: sidecars[0]}

    async def invoke(_number: int) -> None:
        await opened.ask("POST", "/serverless/invocations", 200, body=BODY)

    await one_by_one(_WARM_UPS, invoke)
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    latencies = await one_by_one(times, invoke)
    cpu = {name: {"cpu": (cpu_seconds(pid) - before[name]) / times * 1000} for name, pid in pids.items()}
    return {OURS: reading(latencies), **cpu}


async def _run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    times = _QUICK_TIMES if bench.quick else _TIMES
    readings: dict[str, list[Reading]] = {name: [] for name in (FLOOR, OURS, HTTP_ECHO, *_PARTS)}
    bench.say("a cluster and the processes start")
    async with deployed(bench.directory / "echo") as world, answering(bench.directory / "echo-floors") as bare:
        await asyncio.to_thread(world.function, _FUNCTION, scaling={"minWorkers": 1, "maxWorkers": 1})
        async with connection(world.address(API)) as opened:
            for number in range(bench.repeat):
                bench.say(f"round {number + 1} of {bench.repeat}")
                floors = await measure_floors(bare, times, f"round-{number}")
                readings[FLOOR].append(floor_reading(floors))
                readings[HTTP_ECHO].append({"cpu": floors.echo_cpu * 1000})
                for name, found in (await _invocations(world, opened, times)).items():
                    readings[name].append(found)
    results = Results(readings)
    return tuple(results.figure(measure) for measure in MEASURES)


ECHO: Final[Scenario[Bench]] = Scenario("echo", "synchronous echo over HTTP, one in flight", False, _contenders, _run)
