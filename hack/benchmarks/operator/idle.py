"""The cost of units that do not change: of a restart among them, and of an idle period.

Creating thousands of units takes minutes, so all our variants share a cluster. Go has its own cluster, because its
annotations differ and it would start by rewriting ours.
"""

import asyncio
from collections.abc import Mapping, Sequence

from hack.benchmarks.alternating import Measure, Results, alternate
from hack.benchmarks.catalogue import GO, loops
from hack.benchmarks.contenders import Contender, Failure, Outcome, Reading
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.operator.converge import become_ready, contenders, limit_of
from hack.benchmarks.operator.operating import Operating
from hack.benchmarks.operator.unit_bench import UnitBench
from hack.benchmarks.operator.world import unit_world
from hack.benchmarks.scenario import Scenario

__all__ = ["IDLING", "idle_measures", "restart_measures"]

_UNITS, _QUICK_UNITS = 5_000, 50
_NONE = tuple(Bar(loop.contender, 0.0) for loop in loops())


def restart_measures(units: int) -> tuple[Measure, ...]:
    """The figures of a restart among this number of ready units, until the queue is empty."""
    return (
        Measure(
            f"restart among {units:,} units until the queue is empty", "s", lambda reading: reading["rest_seconds"]
        ),
        Measure("CPU of a restart", "s", lambda reading: reading["rest_cpu_seconds"]),
        Measure("reconciles of a restart", "runs", lambda reading: reading["rest_runs"]),
        Measure("writes of a restart", "writes", lambda reading: reading["rest_writes"], _NONE),
    )


def idle_measures(units: int) -> tuple[Measure, ...]:
    """The figures of the idle period that follows."""

    def memory(reading: Reading) -> float:
        return (reading["rss_after_kb"] - reading["rss_empty_kb"]) / units

    return (
        Measure("writes while idle", "writes", lambda reading: reading["writes"], _NONE),
        Measure("reconciles while idle", "runs", lambda reading: reading["objects"]),
        Measure("CPU while idle", "% of a core", lambda reading: reading["cpu_seconds"] / reading["seconds"] * 100),
        Measure(
            "CPU of an idle unit", "us/s", lambda reading: reading["cpu_seconds"] / reading["seconds"] / units * 1e6
        ),
        Measure("memory", "MB", lambda reading: reading["rss_after_kb"] / 1024),
        Measure("memory of a unit", "KB", memory),
    )


async def run(bench: UnitBench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    units = _QUICK_UNITS if bench.quick else _UNITS
    restarts, idles = Results(), Results()
    for family in _families(participants):
        restarted, idled = await _among_idle_units(bench, family, units)
        restarts, idles = _joined(restarts, restarted), _joined(idles, idled)
    return (
        *(restarts.figure(measure) for measure in restart_measures(units)),
        *(idles.figure(measure) for measure in idle_measures(units)),
    )


async def _among_idle_units(bench: UnitBench, family: Sequence[Contender], units: int) -> tuple[Results, Results]:
    """The restarts and idle periods of contenders that render the same children; the first one creates the units."""
    first = family[0]
    if first.broken is not None:
        return _all_failed(family, first.broken)
    with unit_world(bench.directory / "cluster", units) as world:
        operating = Operating(bench.runner, world, limit_of(units) + bench.idle_seconds)

        async def making() -> Mapping[str, float]:
            return await become_ready(world, bench)

        async def nothing() -> Mapping[str, float]:
            return {}

        async def idling() -> Mapping[str, float]:
            await asyncio.sleep(bench.idle_seconds)
            return {}

        async def restart(contender: Contender) -> Outcome:
            return await operating.run(contender, nothing, units=units)

        async def idle(contender: Contender) -> Outcome:
            return await operating.run(contender, idling, units=units)

        bench.say(f"{first.name} makes {units:,} units")
        made = await operating.run(first, making, units=0)
        if isinstance(made, Failure):
            return _all_failed(family, f"the units could not be made: {made.reason}")
        bench.say("restarts")
        restarts = await alternate(family, bench.repeat, restart, bench.say)
        bench.say(f"idle for {bench.idle_seconds:g} s each")
        return restarts, await alternate(family, 1, idle, bench.say)


def _families(participants: Sequence[Contender]) -> list[list[Contender]]:
    ours = [contender for contender in participants if contender.name != GO]
    others = [[contender] for contender in participants if contender.name == GO]
    return [family for family in (*others, ours) if family]


def _all_failed(family: Sequence[Contender], reason: str) -> tuple[Results, Results]:
    failed = Results({}, {contender.name: reason for contender in family})
    return failed, failed


def _joined(one: Results, other: Results) -> Results:
    return Results({**one.readings, **other.readings}, {**one.failures, **other.failures})


IDLING = Scenario("idle", f"{_UNITS:,} units that do not change: restart and idle", False, contenders, run)
