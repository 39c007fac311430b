"""Claims that are sent three times, to two replicas: a duplicate is answered when the result of the first is known.

They are compared with claims that are sent once in the same round.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from hack.benchmarks.alternating import Measure, Results
from hack.benchmarks.api.api_caller import ApiCaller, all_ready, api_caller, settled
from hack.benchmarks.api.claims import OURS
from hack.benchmarks.api.latencies import Latencies
from hack.benchmarks.api.serving import api_world
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Reading
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["DUPLICATES", "measures"]

_ONCE, _THRICE = "once", "thrice"
_TIMES: Final = {_ONCE: 1, _THRICE: 3}
_LATE: Final = 504


@frozen
class Load:
    """The number of operationIDs, and of simultaneous requests."""

    ids: int
    at_a_time: int


_FULL: Final = Load(300, 60)
_QUICK: Final = Load(20, 12)


def _contenders(_catalogue: Catalogue) -> tuple[Contender, ...]:
    return (Contender(OURS, (), "POST /gpu-units of two `gpuruntime manager`, one of which reconciles"),)


def measures() -> tuple[Measure, ...]:
    """The figures."""
    return (
        Measure("claim p90, each sent once", "ms", _value("once p90")),
        Measure("claim p90, each sent three times", "ms", _value("thrice p90")),
        Measure("p90 of claims that are sent once", "x", _value("times"), (Bar(OURS, 2.0),)),
        Measure("answers 504, each sent three times", "answers", _value("thrice late"), (Bar(OURS, 0.0),)),
        Measure("answers 503, each sent three times", "answers", _value("thrice refused")),
    )


@frozen
class _Value:
    key: str

    def __call__(self, reading: Reading) -> float | None:
        return reading.get(self.key)


def _value(key: str) -> _Value:
    return _Value(key)


async def run(bench: Bench, _participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    load = _QUICK if bench.quick else _FULL
    readings = []
    for number in range(bench.repeat):
        bench.say(f"round {number + 1} of {bench.repeat}")
        # The order alternates, because the machine may be quieter at the start of a round.
        order = (_ONCE, _THRICE) if number % 2 == 0 else (_THRICE, _ONCE)
        readings.append(await _round(bench, load, order))
    return tuple(Results({OURS: readings}).figure(measure) for measure in measures())


async def _round(bench: Bench, load: Load, order: Sequence[str]) -> Reading:
    found: dict[str, float] = {}
    with api_world(bench.directory / "api", len(order) * load.ids) as world:
        second = world.another()
        await asyncio.to_thread(world.start)
        await asyncio.to_thread(second.start)
        async with api_caller(world) as one, api_caller(second) as two:
            bench.say(f"{len(order)} flavours of {load.ids} stock units get ready")
            for flavour in order:
                await one.seed(flavour, load.ids)
            await all_ready(one, bench, len(order) * load.ids)
            for flavour in order:
                bench.say(f"claims: {flavour}")
                found |= await _claims((one, two), flavour, load)
                await settled(one, bench)
            made = json.loads(await one.ask("GET", "/health", 200))["data"]["activeUnitCount"]
    if made != len(order) * load.ids:
        raise ObjectsError(f"expected {len(order) * load.ids} units for as many operationIDs, got {made}")
    return found | {"times": found["thrice p90"] / found["once p90"]}


async def _claims(replicas: Sequence[ApiCaller], flavour: str, load: Load) -> dict[str, float]:
    requests = iter([(number, turn) for number in range(load.ids) for turn in range(_TIMES[flavour])])
    spent: list[float] = []
    statuses: list[int] = []

    async def send() -> None:
        for number, turn in requests:
            began = time.perf_counter()
            replica = replicas[(number + turn) % len(replicas)]
            statuses.append(await replica.try_to_claim(f"{flavour}-{number:03}", flavour))
            spent.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        for _ in range(load.at_a_time):
            group.create_task(send())
    return {
        f"{flavour} p90": Latencies(tuple(spent)).p90,
        f"{flavour} late": float(statuses.count(_LATE)),
        f"{flavour} refused": float(len(statuses) - sum(map(statuses.count, (200, 201, _LATE)))),
    }


DUPLICATES = Scenario("duplicates", "claims are sent three times, to two replicas", False, _contenders, run)
"""The latency of duplicate claims."""
