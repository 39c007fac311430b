"""Many new units at once, until all are ready and the contender is idle.

Each run has its own cluster, so that no contender meets the objects of another.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

from attrs import field, frozen

from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import GO, Catalogue, loops
from hack.benchmarks.contenders import Contender, Failure, Outcome, Reading
from hack.benchmarks.creating import create_objects
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.operator.equivalence import Form, differences, form_of
from hack.benchmarks.operator.operating import Operating
from hack.benchmarks.operator.readiness import watching_readiness
from hack.benchmarks.operator.unit_bench import UnitBench
from hack.benchmarks.operator.world import COLLECTION, World, unit, unit_world
from hack.benchmarks.scenario import Scenario

__all__ = ["become_ready", "contenders", "converging", "limit_of", "measures"]

# Long enough for the last write: a status may be held back for three seconds and merged with the next one.
_SETTLING_SECONDS = 5.0
_QUICK_FRACTION = 10
_SHOWN_PATHS = 8


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    return (catalogue.go("manager and controller, 16 workers"), *catalogue.ours("operating.py", loops()))


def converging(units: int) -> Scenario[UnitBench]:
    """The scenario with this number of units."""

    async def run(bench: UnitBench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
        count = units // _QUICK_FRACTION if bench.quick else units
        round_ = _Round(bench, count)
        results = await alternate(participants, bench.repeat, round_.run, bench.say)
        return tuple(results.figure(measure) for measure in measures(count))

    return Scenario(f"converge-{units}", f"{units:,} new units at once, until all are ready", False, contenders, run)


def measures(units: int) -> tuple[Measure, ...]:
    """The figures and bars of a run with this number of units."""
    ours = [loop.contender for loop in loops()]

    def bars(limit: float) -> tuple[Bar, ...]:
        return tuple(Bar(name, limit, GO) for name in ours)

    def each(name: str, factor: float = 1.0) -> Callable[[Reading], float]:
        return lambda reading: reading[name] / units * factor

    return (
        Measure(f"time until {units:,} units are ready", "s", lambda reading: reading["ready_seconds"], bars(1.1)),
        Measure("of it until all were made", "s", lambda reading: reading["created_seconds"]),
        Measure("CPU of a unit", "ms", each("cpu_seconds", 1000), bars(1.5)),
        Measure("writes of a unit", "writes", each("writes"), bars(1.0)),
        Measure("of them statuses", "writes", each("status_writes")),
        Measure("of them events", "writes", each("event_writes")),
        Measure("writes that the server refused", "of a unit", each("refused_writes")),
        Measure("reconciles of a unit", "runs", each("objects")),
        Measure("peak memory", "MB", lambda reading: reading["peak_rss_kb"] / 1024),
    )


async def become_ready(world: World, bench: UnitBench) -> Mapping[str, float]:
    """Create all units of a world; returns when they are ready and the last write is done."""
    async with watching_readiness(world.access.kubeconfig, world.units, bench.progress) as readiness:
        began = time.perf_counter()
        await create_objects(world.access, COLLECTION, unit, world.units, bench.progress)
        created = time.perf_counter() - began
        await readiness.all_ready()
        ready = time.perf_counter() - began
        await asyncio.sleep(_SETTLING_SECONDS)
    return {"created_seconds": created, "ready_seconds": ready}


def limit_of(units: int) -> float:
    """The timeout, in seconds, for this number of units to become ready."""
    return 120.0 + 0.6 * units


@frozen
class _Round:
    """Runs contenders one after another, and compares the children of a unit with those of the first contender."""

    bench: UnitBench
    units: int
    _made: dict[str, Form] = field(factory=dict, init=False)

    async def run(self, contender: Contender) -> Outcome:
        if contender.broken is not None:
            return Failure(contender.broken)
        with unit_world(self.bench.directory / "cluster", self.units) as world:

            async def window() -> Mapping[str, float]:
                return await become_ready(world, self.bench)

            operating = Operating(self.bench.runner, world, limit_of(self.units))
            outcome = await operating.run(contender, window, units=0)
            return outcome if isinstance(outcome, Failure) else self._compared(contender, world) or outcome

    def _compared(self, contender: Contender, world: World) -> Failure | None:
        made = form_of(world)
        first, expected = next(iter(self._made.items()), (contender.name, made))
        self._made[contender.name] = made
        paths = list(differences(expected, made))
        if not paths:
            return None
        return Failure(f"it makes something else of a unit than {first}: {', '.join(paths[:_SHOWN_PATHS])}")
