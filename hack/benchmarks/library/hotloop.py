"""The request rate of a client against a server that fails every watch.

The contenders of one fault run at the same time and share the cores, so the rate of a hot loop is a lower bound.
"""

import asyncio

from hack.benchmarks.catalogue import Catalogue, loops
from hack.benchmarks.contenders import Contender, Failure
from hack.benchmarks.faulty_server import FAULTS, Fault, FaultyServer
from hack.benchmarks.figures import Bar, Figure
from hack.benchmarks.scenario import Bench, Scenario

__all__ = ["SCENARIO"]

_WINDOW_SECONDS = (10.0, 20.0)
_QUICK_WINDOW_SECONDS = (2.0, 4.0)
_DYING_SECONDS = 3.0
_LIMIT_SECONDS = 90.0
_VARIANT = loops()[0]


def contenders(catalogue: Catalogue) -> tuple[Contender, ...]:
    return (catalogue.go(), *catalogue.ours("hotloop.py", (_VARIANT,)), *catalogue.peers())


async def run(bench: Bench, participants: tuple[Contender, ...]) -> tuple[Figure, ...]:
    figures = []
    for number, fault in enumerate(FAULTS, 1):
        bench.say(f"{fault.name} ({number} of {len(FAULTS)})")
        async with asyncio.TaskGroup() as group:
            rates = {contender.name: group.create_task(_rate(bench, fault, contender)) for contender in participants}
        outcomes = {name: rate.result() for name, rate in rates.items()}
        figures.append(
            Figure(
                fault.name,
                "requests/s",
                {name: (outcome,) for name, outcome in outcomes.items() if not isinstance(outcome, Failure)},
                {name: outcome.reason for name, outcome in outcomes.items() if isinstance(outcome, Failure)},
                (Bar(_VARIANT.contender, 1.0),),
            )
        )
    return tuple(figures)


async def _rate(bench: Bench, fault: Fault, contender: Contender) -> float | Failure:
    """Run a contender until the window has passed; one that exits earlier has failed."""
    since, until = _QUICK_WINDOW_SECONDS if bench.quick else _WINDOW_SECONDS
    async with FaultyServer(fault) as server:
        kubeconfig = bench.directory / f"{FAULTS.index(fault)}-{contender.name}.kubeconfig"
        kubeconfig.write_text(server.kubeconfig())
        arguments = ("hotloop", "--seconds", str(_LIMIT_SECONDS))
        environment = {"KUBECONFIG": str(kubeconfig)}
        running = asyncio.create_task(bench.runner.run(contender, arguments, environment, _LIMIT_SECONDS))
        passing = asyncio.create_task(server.asked_for(until))
        try:
            await asyncio.wait([running, passing], return_when=asyncio.FIRST_COMPLETED)
            # A contender that crashed in the window may still be exiting, and must not count as quiet.
            await asyncio.wait([running], timeout=_DYING_SECONDS)
            if not running.done():
                return server.rate(since, until)
        finally:
            running.cancel()
            passing.cancel()
            await asyncio.wait([running, passing])
        outcome = running.result()
        return outcome if isinstance(outcome, Failure) else Failure("it asked for no pods")


SCENARIO = Scenario(
    "hotloop", "A server that fails every watch for ever (side by side: a hot one is a floor)", False, contenders, run
)
