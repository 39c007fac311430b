"""The time to stop an idle manager that is embedded in the loop of another program.

A contender that cancels a task of the other program has failed.
"""

from hack.benchmarks.alternating import Measure, alternate
from hack.benchmarks.catalogue import Catalogue, loops
from hack.benchmarks.contenders import Contender, Outcome
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import LibraryBench, Scenario

__all__ = ["SCENARIO"]

_QUIET_SECONDS = 3.0
_LIMIT_SECONDS = 120.0
_STOP = Measure(
    "from stop() to the return of run()",
    "s",
    lambda reading: reading["stop_seconds"],
    tuple(Bar(variant.contender, 1.0) for variant in loops()),
)


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    return catalogue.ours("stopping.py", loops())


async def run(bench: LibraryBench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    async def once(contender: Contender) -> Outcome:
        return await bench.runner.run(
            contender,
            ("stopping", "--objects", str(bench.objects), "--seconds", str(_QUIET_SECONDS)),
            {"KUBECONFIG": str(bench.kubeconfig)},
            _LIMIT_SECONDS,
        )

    return ((await alternate(participants, bench.repeat, once, bench.say)).figure(_STOP),)


SCENARIO = Scenario("stopping", "The stop of a quiet manager: three informers, HTTP, election", True, contenders, run)
