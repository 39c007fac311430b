"""Two thousand who begin to follow 650 units at once, and how long others wait meanwhile. Reconcilers are paused."""

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
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError, create_objects
from hack.benchmarks.figures import Figure
from hack.benchmarks.requests.asking import Asker, asking
from hack.benchmarks.requests.claims import OURS
from hack.benchmarks.requests.latencies import Latencies, arrivals, sent_at
from hack.benchmarks.requests.serving import ACTIVE_UNITS, Served, api_world, stock_unit
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["FOLLOWERS", "measures"]

_PROGRAM: Final = Path(__file__).with_name("crowd.py")
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
    """The figures: how long it takes until all are admitted, and what others wait before, meanwhile and after."""
    others = [
        Measure(f"get {part} of others, {when}", "ms", _value(f"{when} {part}"))
        for when in ("nobody follows", "followers come", "all follow")
        for part in ("p50", "p99")
    ]
    return (Measure("all followers have the full state", "s", _value("seconds")), *others)


def _value(key: str) -> Callable[[Reading], float | None]:
    return lambda reading: reading.get(key)


async def run(bench: Bench, _everybody: tuple[Contender, ...]) -> tuple[Figure, ...]:
    size = _QUICK if bench.quick else _FULL
    with api_world(bench.directory / "api", 0) as world:
        await asyncio.to_thread(world.start)
        await asyncio.to_thread(world.pause_reconcilers)
        await create_objects(world.access, ACTIVE_UNITS, _unit, size.units, bench.progress)
        async with asking(world) as asker:
            readings = [await _round(bench, world, asker, size.followers) for _ in range(bench.repeat)]
    return tuple(Results({OURS: readings}).figure(measure) for measure in measures())


async def _round(bench: Bench, world: Served, asker: Asker, followers: int) -> Reading:
    bench.say(f"{followers:,} followers come")
    found = _named("nobody follows", await _window(asker))
    async with _crowd(world.url, followers) as admitted:
        came: list[float] = []
        while not admitted.done():
            came += (await _window(asker)).seconds
        found["seconds"] = await admitted
        found |= _named("followers come", Latencies(tuple(came)))
        return found | _named("all follow", await _window(asker))


def _unit(number: int) -> dict[str, Any]:
    unit = stock_unit(number, "followed")
    envs = [{"name": f"VARIABLE_{index}", "value": "x" * 20} for index in range(8)]
    return {**unit, "spec": {**unit["spec"], "image": "nginx", "template": {"envs": envs}}}


async def _window(asker: Asker) -> Latencies:
    """What others wait who get a unit, for a few seconds."""

    async def get(number: int) -> None:
        await asker.ask("GET", f"/gpu-units/unit-{number % 10:05d}", 200)

    (spent,) = await sent_at(arrivals(int(_RATE * _WINDOW_SECONDS), _RATE, 1), get)
    return spent


def _named(when: str, latencies: Latencies) -> dict[str, float]:
    return {f"{when} p50": latencies.p50, f"{when} p99": latencies.p99}


@asynccontextmanager
async def _crowd(url: str, followers: int) -> AsyncIterator["asyncio.Task[float]"]:
    """The followers; the task gives the seconds until all of them had the full state."""
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


FOLLOWERS = Scenario("followers", "many who follow units, and others beside them", False, _contenders, run)
"""Whether followers hold up others."""
