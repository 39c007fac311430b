"""`hack/bench functions`: invocations, beside the bare steps that they consist of."""

import argparse
import asyncio
from typing import Final

from gpuruntime.testing.progress import Progress
from hack.benchmarks.functions.backlog import BACKLOG
from hack.benchmarks.functions.bus import BUS
from hack.benchmarks.functions.echo import ECHO
from hack.benchmarks.functions.floors import FLOORS
from hack.benchmarks.functions.http_rate import HTTP
from hack.benchmarks.measuring import conditions, run_all, set_up_contenders, temporary_runner
from hack.benchmarks.options import add_options, chosen
from hack.benchmarks.report import Report
from hack.benchmarks.scenario import Bench

__all__ = ["SCENARIOS", "add_functions"]

SCENARIOS: Final = {scenario.name: scenario for scenario in (FLOORS, BUS, ECHO, HTTP, BACKLOG)}
_REPEAT, _QUICK_REPEAT = 5, 1


def add_functions(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "functions",
        help="invocations of functions",
        description="Measure invocations beside what their steps cost on this machine in the same run, with a"
        " nats-server that syncs every write to the disk. Exit code 1: a bar is not met.",
        epilog="floors: a publish, a create-only commit, a request between two processes, a call over a unix socket,"
        " each one at a time, and the CPU of an aiohttp echo. bus: messages of 1 KiB, 64 in flight, by group commit"
        " and by single publishes. echo: a synchronous invocation over HTTP, one in flight, and the CPU of each"
        " process. http: accepted invocations, 64 in flight, with the publish and without. backlog: 10,000 queued. The"
        " last three start a cluster each. A full run takes about ten minutes on two cores.",
    )
    add_options(parser, SCENARIOS, quick="few messages, one round", rounds=_REPEAT)
    parser.set_defaults(measure=_measure)


def _measure(arguments: argparse.Namespace, progress: Progress) -> Report:
    scenarios = chosen(SCENARIOS, arguments.only)
    quick = arguments.quick
    repeat = arguments.repeat or (_QUICK_REPEAT if quick else _REPEAT)
    contenders = set_up_contenders(scenarios, progress)
    with temporary_runner() as (directory, runner):
        bench = Bench(runner=runner, progress=progress, directory=directory, repeat=repeat, quick=quick)
        reports = asyncio.run(run_all(bench, scenarios, contenders))
        progress.step("cleaning up")
    return Report(conditions(quick=quick, repeat=repeat), reports)
