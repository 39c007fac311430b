"""`hack/bench operator`: the GPUUnit reconciler beside a controller in Go that does the same work."""

import argparse
import asyncio

from gpuruntime.testing.progress import Progress
from hack.benchmarks.measuring import conditions, run_all, set_up_contenders, temporary_runner
from hack.benchmarks.operator.converge import converging
from hack.benchmarks.operator.idle import IDLING
from hack.benchmarks.operator.unit_bench import UnitBench
from hack.benchmarks.options import add_options, chosen, positive
from hack.benchmarks.report import Report

__all__ = ["SCENARIOS", "add_operator"]

SCENARIOS = {scenario.name: scenario for scenario in (converging(300), converging(1_000), IDLING)}
_REPEAT, _QUICK_REPEAT = 3, 1
_IDLE_SECONDS, _QUICK_IDLE_SECONDS = 300, 10


def add_operator(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "operator",
        help="the GPUUnit reconciler",
        description="Measure the GPUUnit reconciler beside a controller-runtime controller in Go that creates the same"
        " Deployments, Services and statuses of the same units, with as many workers and no rate limit. Each run has a"
        " cluster of its own with fake nodes; the audit log of its API server has the writes of each. Runs whose"
        " children differ are not comparable: the second one fails and names the differences. Exit code 1: a bar is not"
        " met.",
        epilog="converge-N: N units are created at once; time, CPU, writes and reconciles until all are ready and the"
        " controller is idle. idle: a restart among 5,000 ready units until the queue is empty, then an idle period"
        " without writes. A full run takes about an hour on two cores.",
    )
    quick = f"a tenth of the units and fewer, one round, {_QUICK_IDLE_SECONDS} s of idling"
    add_options(parser, SCENARIOS, quick=quick, rounds=_REPEAT)
    parser.add_argument(
        "--idle-seconds",
        type=positive,
        metavar="S",
        help=f"for how long idle units are watched (default: {_IDLE_SECONDS}, which is what the bar is about)",
    )
    parser.set_defaults(measure=_measure)


def _measure(arguments: argparse.Namespace, progress: Progress) -> Report:
    scenarios = chosen(SCENARIOS, arguments.only)
    quick = arguments.quick
    repeat = arguments.repeat or (_QUICK_REPEAT if quick else _REPEAT)
    idle_seconds = arguments.idle_seconds or (_QUICK_IDLE_SECONDS if quick else _IDLE_SECONDS)
    contenders = set_up_contenders(scenarios, progress)
    with temporary_runner() as (directory, runner):
        bench = UnitBench(
            runner=runner,
            progress=progress,
            directory=directory,
            repeat=repeat,
            quick=quick,
            idle_seconds=idle_seconds,
        )
        reports = asyncio.run(run_all(bench, scenarios, contenders))
        progress.step("cleaning up")
    return Report(conditions(quick=quick, repeat=repeat, idle=f"{idle_seconds} s"), reports)
