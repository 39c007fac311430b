"""The cost of importing a library, with the start of the interpreter."""

from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import Catalogue
from hack.benchmarks.contenders import Contender, Outcome
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["SCENARIO"]

_LIMIT_SECONDS = 60.0
_MEASURES = (
    Measure("CPU", "s", lambda reading: reading["cpu_seconds"], (Bar("ours", 0.5),)),
    Measure("memory", "MB", lambda reading: reading["rss_after_kb"] / 1024, (Bar("ours", 45.0),)),
)


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    return catalogue.imports("gpuruntime.control")


async def run(bench: Bench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    async def once(contender: Contender) -> Outcome:
        return await bench.runner.run(contender, (), {}, _LIMIT_SECONDS)

    # The first import of a new checkout also compiles bytecode.
    results = await alternate(participants, bench.repeat, once, bench.say, warm_ups=1)
    return tuple(results.figure(measure) for measure in _MEASURES)


SCENARIO = Scenario("import", "The import of the library", False, contenders, run)
