"""2,000 clients start to watch 650 units at once: the latency of other requests meanwhile. Reconcilers are paused."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from attrs import frozen

from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.api.api_caller import ApiCaller, api_caller
from hack.benchmarks.api.claims import OURS
from hack.benchmarks.api.latencies import Latencies, arrivals, sent_at
from hack.benchmarks.api.serving import ACTIVE_UNITS, Served, api_world, stock_unit
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError, create_objects
from hack.benchmarks.figures import Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["FOLLOWERS", "measures"]

_PROGRAM: Final = Path(__file__).with_name("follower_program.py")
_RATE: Final = 40.0
_WINDOW_SECONDS: Final = 3.0


@frozen
class _Crowd:
    followers: int
    units: int


_FULL: Final = _Crowd(2_000, 650)
_QUICK: Final = _Crowd(50, 20)


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (Contender(OURS, (), "one `gpuruntime manager`; the followers are another process on the same machine"),)


def measures() -> tuple[Measure, ...]:
    """The figures: the time until all clients have the full state, and the latency of other requests before, during and
    after.
    """
    others = [
        Measure(f"get {part} of others, {when}", "ms", _value(f"{when} {part}"))
        for when in ("no watches", "watches start", "all watch")
        for part in ("p50", "p99")
    ]
    return (Measure("all followers have the full state", "s", _value("seconds")), *others)


def _value(key: str) -> Callable[[Reading], float | None]:
    return lambda reading: reading.get(key)


async def run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    size = _QUICK if bench.quick else _FULL
    with api_world(bench.directory / "api", 0) as world:
        await asyncio.to_thread(world.start)
        await asyncio.to_thread(world.pause_reconcilers)
        await create_objects(world.access, ACTIVE_UNITS, _unit, size.units, bench.progress)
        async with api_caller(world) as caller:
            readings = [await _round(bench, world, caller, size.followers) for _ in range(bench.repeat)]
    return tuple(Results({OURS: readings}).figure(measure) for measure in measures())


async def _round(bench: Bench, world: Served, caller: ApiCaller, followers: int) -> Reading:
    bench.say(f"{followers:,} watches start")
    found = _named("no watches", await _window(caller))
    async with _crowd(world.url, followers) as admitted:
        came: list[float] = []
        while not admitted.done():
            came += (await _window(caller)).seconds
        found["seconds"] = await admitted
        found |= _named("watches start", Latencies(tuple(came)))
        return found | _named("all watch", await _window(caller))


def _unit(number: int) -> dict[str, Any]:
    unit = stock_unit(number, "followed")
    envs = [{"name": f"VARIABLE_{index}", "value": "x" * 20} for index in range(8)]
    return {**unit, "spec": {**unit["spec"], "image": "nginx", "template": {"envs": envs}}}


async def _window(caller: ApiCaller) -> Latencies:
    """The latency of GET requests for a few seconds."""

    async def get(number: int) -> None:
        await caller.ask("GET", f"/gpu-units/unit-{number % 10:05d}", 200)

    (spent,) = await sent_at(arrivals(int(_RATE * _WINDOW_SECONDS), _RATE, 1), get)
    return spent


def _named(when: str, latencies: Latencies) -> dict[str, float]:
    return {f"{when} p50": latencies.p50, f"{when} p99": latencies.p99}


@asynccontextmanager
async def _crowd(url: str, followers: int) -> AsyncIterator["asyncio.Task[float]"]:
    """Run the clients; the task returns the seconds until all of them have the full state."""
    address = urlsplit(url)
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(_PROGRAM), str(address.hostname), str(address.port), str(followers)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    if program.stdin is None or program.stdout is None:
        raise ObjectsError("expected the followers to have a standard input and output")
    admitted = asyncio.create_task(_admitted(program.stdout))
    try:
        yield admitted
    finally:
        program.stdin.close()
        await program.wait()


async def _admitted(output: asyncio.StreamReader) -> float:
    said = await output.readline()
    if not said:
        raise ObjectsError("the followers were not all admitted")
    return float(json.loads(said)["seconds"])


FOLLOWERS = Scenario("followers", "many clients watch units, and other requests", False, _contenders, run)
"""Whether watches delay other requests."""
