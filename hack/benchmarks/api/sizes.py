"""Latency of reads and claims by the number of units, and reads per second of CPU. Reconcilers are paused."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.api.api_caller import ApiCaller, api_caller
from hack.benchmarks.api.claims import OURS
from hack.benchmarks.api.faked_stock import add_stock
from hack.benchmarks.api.latencies import one_by_one
from hack.benchmarks.api.serving import Served, api_world
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.figures import Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["SIZES", "measures"]

_SIZES: Final = (10, 100, 1_000, 5_000)
_QUICK_SIZES: Final = (5, 20)
_SPEC: Final = "sized"
_CONNECTIONS: Final = 8
_SECONDS, _QUICK_SECONDS = 8.0, 1.0
_GETS, _LISTS, _CLAIMS = 200, 40, 5


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (Contender(OURS, (), "one `gpuruntime manager`, one connection for latencies, eight for throughput"),)


def measures(sizes: tuple[int, ...]) -> tuple[Measure, ...]:
    """The figures: the latency of one request per size, and the throughput per core at the largest size."""
    found = [
        Measure(f"{what} p50 among {size:,} units", "ms", _value(f"{what} {size}"))
        for what in ("get", "list of 100", "claim")
        for size in sizes
    ]
    return (
        *found,
        Measure("cached gets", "a second and core", _value("gets")),
        Measure("cached lists of 100", "a second and core", _value("lists")),
    )


def _value(key: str) -> Callable[[Reading], float | None]:
    return lambda reading: reading.get(key)


async def run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    sizes = _QUICK_SIZES if bench.quick else _SIZES
    readings = [await _round(bench, sizes) for _ in range(bench.repeat)]
    return tuple(Results({OURS: readings}).figure(measure) for measure in measures(sizes))


async def _round(bench: Bench, sizes: tuple[int, ...]) -> Reading:
    found: dict[str, float] = {}
    with api_world(bench.directory / "api", 0) as world:
        await asyncio.to_thread(world.start)
        await asyncio.to_thread(world.pause_reconcilers)
        async with api_caller(world) as caller:
            known = 0
            for size in sizes:
                bench.say(f"{size:,} units")
                await add_stock(world, known, size, _SPEC, bench.progress)
                known = size
                found |= await _latencies(caller, size)
            seconds = _QUICK_SECONDS if bench.quick else _SECONDS
            found["gets"] = await _per_core(world, seconds, lambda: _get(caller, sizes[-1] - 1))
            found["lists"] = await _per_core(world, seconds, lambda: _list(caller))
    return found


async def _latencies(caller: ApiCaller, size: int) -> dict[str, float]:
    async def get(number: int) -> None:
        # The oldest units are claimed.
        await _get(caller, size - 1 - number % (size // 2))

    async def page(_number: int) -> None:
        await _list(caller)

    async def claim(number: int) -> None:
        await caller.claim(f"claim-{size}-{number}", _SPEC)

    return {
        f"get {size}": (await one_by_one(_GETS, get)).p50,
        f"list of 100 {size}": (await one_by_one(_LISTS, page)).p50,
        f"claim {size}": (await one_by_one(min(_CLAIMS, size // 4), claim)).p50,
    }


async def _get(caller: ApiCaller, number: int) -> None:
    await caller.ask("GET", f"/operator/stock-units/unit-{number:05d}", 200)


async def _list(caller: ApiCaller) -> None:
    await caller.ask("GET", "/operator/stock-units?limit=100", 200)


async def _per_core(world: Served, seconds: float, request: Callable[[], Awaitable[None]]) -> float:
    """The number of requests per second of CPU time of the process."""
    end, answered = time.perf_counter() + seconds, 0

    async def ask() -> None:
        nonlocal answered
        while time.perf_counter() < end:
            await request()
            answered += 1

    before = world.cpu_seconds()
    async with asyncio.TaskGroup() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(ask())
    return answered / (world.cpu_seconds() - before)


SIZES = Scenario("sizes", "reads and claims among 10 to 5,000 units", False, _contenders, run)
"""The effect of the number of units on latency."""
