"""`hack/bench api`: the latency of the REST API."""

import argparse
import asyncio

from gpuruntime.testing.progress import Progress
from hack.benchmarks.api.claims import CLAIMS
from hack.benchmarks.api.duplicates import DUPLICATES
from hack.benchmarks.api.followers import FOLLOWERS
from hack.benchmarks.api.hostile import HOSTILE
from hack.benchmarks.api.sizes import SIZES
from hack.benchmarks.measuring import conditions, run_all, set_up_contenders, temporary_runner
from hack.benchmarks.options import add_options, chosen
from hack.benchmarks.report import Report
from hack.benchmarks.scenario import Bench

__all__ = ["SCENARIOS", "add_api"]

SCENARIOS = {scenario.name: scenario for scenario in (CLAIMS, DUPLICATES, SIZES, HOSTILE, FOLLOWERS)}
_REPEAT, _QUICK_REPEAT = 3, 1


def add_api(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "api",
        help="the REST API",
        description="Measure one `gpuruntime manager` with the account of its manifests on a cluster with fake nodes,"
        " from the outside. Each round of claims and sizes has a cluster of its own. Exit code 1: a bar is not met.",
        epilog="claims: ready stock is claimed at 45 a second (Poisson) and 150 at once, with reconcilers at work and"
        " paused, a bare conditional PATCH beside each claim. duplicates: 300 claims are sent once and 300 others three"
        " times, to two processes, 60 at a time. sizes: get, list and claim among 10 to 5,000 units, and reads a second"
        " and core. hostile: callers and probes beside ten gzip bombs, or ten megabytes of small faults; about two"
        " minutes. followers: 2,000 begin to follow 650 units, and others get units meanwhile. A full run takes"
        " about 40 minutes on two cores.",
    )
    add_options(parser, SCENARIOS, quick="a tenth of the stock, few units, one round", rounds=_REPEAT)
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
