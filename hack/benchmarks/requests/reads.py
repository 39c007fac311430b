"""Reads from the cache, and how everything depends on the number of units. Reconcilers are paused."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.figures import Figure
from hack.benchmarks.requests.asking import Asker, asking
from hack.benchmarks.requests.claims import OURS
from hack.benchmarks.requests.faked_stock import add_stock
from hack.benchmarks.requests.latencies import one_by_one
from hack.benchmarks.requests.serving import Served, api_world
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
    """The figures: of each size what one request takes, and of the largest what a core can do."""
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


async def run(bench: Bench, _everybody: tuple[Contender, ...]) -> tuple[Figure, ...]:
    sizes = _QUICK_SIZES if bench.quick else _SIZES
    readings = [await _round(bench, sizes) for _ in range(bench.repeat)]
    return tuple(Results({OURS: readings}).figure(measure) for measure in measures(sizes))


async def _round(bench: Bench, sizes: tuple[int, ...]) -> Reading:
    found: dict[str, float] = {}
    with api_world(bench.directory / "api", 0) as world:
        await asyncio.to_thread(world.start)
        await asyncio.to_thread(world.pause_reconcilers)
        async with asking(world) as asker:
            known = 0
            for size in sizes:
                bench.say(f"{size:,} units")
                await add_stock(world, known, size, _SPEC, bench.progress)
                known = size
                found |= await _latencies(asker, size)
            seconds = _QUICK_SECONDS if bench.quick else _SECONDS
            found["gets"] = await _per_core(world, seconds, lambda: _get(asker, sizes[-1] - 1))
            found["lists"] = await _per_core(world, seconds, lambda: _list(asker))
    return found


async def _latencies(asker: Asker, size: int) -> dict[str, float]:
    async def get(number: int) -> None:
        # The oldest are claimed.
        await _get(asker, size - 1 - number % (size // 2))

    async def page(_number: int) -> None:
        await _list(asker)

    async def claim(number: int) -> None:
        await asker.claim(f"claim-{size}-{number}", _SPEC)

    return {
        f"get {size}": (await one_by_one(_GETS, get)).p50,
        f"list of 100 {size}": (await one_by_one(_LISTS, page)).p50,
        f"claim {size}": (await one_by_one(min(_CLAIMS, size // 4), claim)).p50,
    }


async def _get(asker: Asker, number: int) -> None:
    await asker.ask("GET", f"/operator/stock-units/unit-{number:05d}", 200)


async def _list(asker: Asker) -> None:
    await asker.ask("GET", "/operator/stock-units?limit=100", 200)


async def _per_core(world: Served, seconds: float, request: Callable[[], Awaitable[None]]) -> float:
    """How many requests the process answers for each second of CPU."""
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


SIZES = Scenario("sizes", "reads and claims among few units and many", False, _contenders, run)
"""What the number of units does to a request."""
