"""The cost of one key in the workqueue: add, get and done, with metrics."""

from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import Catalogue, loops
from hack.benchmarks.contenders import Contender, Outcome
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["SCENARIO"]

_KEYS, _QUICK_KEYS = 1_000_000, 200_000
_LIMIT_SECONDS = 120.0
# 200,000 a second.
_BARS = tuple(Bar(variant.contender, 5.0) for variant in loops())
_MEASURES = (
    Measure("add, get, done, one key at a time", "us", lambda reading: reading["single_us"], _BARS),
    Measure("add, get, done, 1,000 keys waiting", "us", lambda reading: reading["deep_us"], _BARS),
    Measure("one key at a time", "a second", lambda reading: 1e6 / reading["single_us"]),
    Measure("1,000 keys waiting", "a second", lambda reading: 1e6 / reading["deep_us"]),
)


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    return catalogue.ours("queue.py", loops())


async def run(bench: Bench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    keys = _QUICK_KEYS if bench.quick else _KEYS

    async def once(contender: Contender) -> Outcome:
        return await bench.runner.run(contender, ("queue", "--objects", str(keys)), {}, _LIMIT_SECONDS)

    results = await alternate(participants, bench.repeat, once, bench.say)
    return tuple(results.figure(measure) for measure in _MEASURES)


SCENARIO = Scenario("queue", "The workqueue, with metrics", False, contenders, run)
