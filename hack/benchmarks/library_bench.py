"""`hack/bench library`: the reconciler library beside its peers."""

import argparse
import asyncio
from contextlib import ExitStack

from gpuruntime.testing import ClusterAccess, LocalCluster
from gpuruntime.testing.progress import Progress
from hack.benchmarks.creating import create_objects
from hack.benchmarks.measuring import conditions, run_all, set_up_contenders, temporary_runner
from hack.benchmarks.options import add_options, chosen
from hack.benchmarks.pods import PODS, pod
from hack.benchmarks.report import Report, ScenarioReport
from hack.benchmarks.scenario import LibraryBench, load_scenarios

__all__ = ["add_library"]

_OBJECTS, _QUICK_OBJECTS = 10_000, 1_000
_REPEAT, _QUICK_REPEAT = 5, 1


def add_library(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "library",
        help="the reconciler library",
        description="Start a cluster of its own, fill it, and measure the library beside its peers. The peers and a Go"
        " program are set up in the user's cache, once. Exit code 1: a bar is not met.",
    )
    quick = f"{_QUICK_OBJECTS:,} objects, one round, short windows"
    add_options(parser, load_scenarios(), quick=quick, rounds=_REPEAT)
    parser.set_defaults(measure=_measure)


def _measure(arguments: argparse.Namespace, progress: Progress) -> Report:
    scenarios = chosen(load_scenarios(), arguments.only)
    quick = arguments.quick
    objects = _QUICK_OBJECTS if quick else _OBJECTS
    repeat = arguments.repeat or (_QUICK_REPEAT if quick else _REPEAT)
    contenders = set_up_contenders(scenarios, progress)
    with ExitStack() as stack:
        directory, runner = stack.enter_context(temporary_runner())
        access: ClusterAccess | None = None
        if any(scenario.needs_cluster for scenario in scenarios):
            progress.step("starting a cluster")
            access = stack.enter_context(LocalCluster(directory / "cluster", nodes=())).access
        bench = LibraryBench(
            runner=runner,
            progress=progress,
            directory=directory,
            repeat=repeat,
            quick=quick,
            kubeconfig=None if access is None else access.kubeconfig,
            objects=objects,
        )

        async def run() -> tuple[ScenarioReport, ...]:
            if access is not None:
                progress.step(f"creating {objects:,} pods")
                await create_objects(access, PODS, pod, objects, progress)
            return await run_all(bench, scenarios, contenders)

        reports = asyncio.run(run())
        progress.step("cleaning up")
    return Report(conditions(quick=quick, repeat=repeat, objects=objects), reports)
