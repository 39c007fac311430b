"""The command line of `hack/bench`."""

import argparse
import asyncio
import importlib.util
import json
import os
import platform
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import frozen

from gpuruntime.testing import ClusterAccess, ClusterError, LocalCluster
from gpuruntime.testing.building import BuildError
from gpuruntime.testing.children import Children, ChildrenError
from gpuruntime.testing.progress import Progress
from gpuruntime.testing.toolchain import ToolchainError
from hack.benching.cache import SetUpError, bench_cache
from hack.benching.catalogue import Catalogue
from hack.benching.contenders import Contender, Runner
from hack.benching.pods import ObjectsError, create_pods
from hack.benching.report import Report, ScenarioReport, as_json, as_table
from hack.benching.scenario import Bench, Scenario, load_scenarios

__all__ = ["main"]

_OBJECTS, _QUICK_OBJECTS = 10_000, 1_000
_REPEAT, _QUICK_REPEAT = 5, 1
_FAULTS = (SetUpError, ObjectsError, ClusterError, ChildrenError, BuildError, ToolchainError, OSError)


@frozen
class Options:
    """What to measure, and how thoroughly."""

    scenarios: tuple[Scenario, ...]
    objects: int
    repeat: int
    quick: bool


def main(argv: list[str]) -> int:
    """Measure; exit code 0 if every bar is met, 1 if one is not or something is in the way, 130 after Ctrl-C."""
    arguments = _parser().parse_args(argv)
    known = load_scenarios()
    quick = arguments.quick
    options = Options(
        tuple(scenario for name, scenario in known.items() if not arguments.only or name in arguments.only),
        _QUICK_OBJECTS if quick else _OBJECTS,
        arguments.repeat or (_QUICK_REPEAT if quick else _REPEAT),
        quick,
    )
    # Whoever ends the bench politely gets the same clean end as with Ctrl-C, which a shell disables in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    progress = Progress(sys.stderr)
    try:
        report = _measure(options, progress)
    except _FAULTS as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing is left running", file=sys.stderr)
        return 130
    finally:
        progress.close()
    print(as_table(report))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(as_json(report), indent=2) + "\n")
    return 0 if report.all_met else 1


def _measure(options: Options, progress: Progress) -> Report:
    catalogue = Catalogue(bench_cache(), progress)
    everybody = {scenario.name: scenario.contenders(catalogue) for scenario in options.scenarios}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpuruntime-bench-")))
        access = None
        if any(scenario.needs_cluster for scenario in options.scenarios):
            progress.step("starting a cluster")
            access = stack.enter_context(LocalCluster(directory / "cluster", nodes=())).access
        children = stack.enter_context(Children(directory / "contenders"))
        bench = Bench(
            runner=Runner(children, directory),
            progress=progress,
            directory=directory,
            kubeconfig=None if access is None else access.kubeconfig,
            objects=options.objects,
            repeat=options.repeat,
            quick=options.quick,
        )
        reports = asyncio.run(_run(bench, options.scenarios, everybody, access))
        progress.step("cleaning up")
    return Report(_conditions(options), reports)


async def _run(
    bench: Bench,
    scenarios: tuple[Scenario, ...],
    everybody: dict[str, tuple[Contender, ...]],
    access: ClusterAccess | None,
) -> tuple[ScenarioReport, ...]:
    if access is not None:
        await create_pods(access, bench.objects, bench.progress)
    reports = []
    for scenario in scenarios:
        bench.progress.step(f"{scenario.name}: {scenario.title}")
        contenders = everybody[scenario.name]
        reports.append(ScenarioReport(scenario.name, scenario.title, contenders, await scenario.run(bench, contenders)))
    return tuple(reports)


def _conditions(options: Options) -> dict[str, Any]:
    size = "quick, too small to judge by" if options.quick else "full"
    return {
        "run:": size,
        "objects": options.objects,
        "rounds": options.repeat,
        "cores": os.cpu_count(),
        "load": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
        "uvloop": "yes" if importlib.util.find_spec("uvloop") else "no",
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/bench",
        description="Measure ours beside Go's controller-runtime and the Python peers: on this machine, in turns, each"
        " run in a fresh process.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    library = commands.add_parser(
        "library",
        help="the reconciler library",
        description="Start a cluster of its own, fill it, and measure the library beside its peers. The peers and a Go"
        " program are set up in the user's cache, once. Exit code 1: a bar is not met.",
    )
    library.add_argument("--quick", action="store_true", help=f"{_QUICK_OBJECTS:,} objects, one round, short windows")
    library.add_argument(
        "--only", action="append", choices=sorted(load_scenarios()), help="this scenario; may be repeated"
    )
    library.add_argument("--repeat", type=_positive, metavar="N", help=f"rounds (default: {_REPEAT})")
    library.add_argument("--json", type=_file_to_be, metavar="FILE", help="write every sample to FILE as well")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} rounds measure nothing: give 1 or more")
    return number


def _file_to_be(text: str) -> Path:
    """Noticed now rather than after many minutes."""
    path = Path(text)
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{path.parent} is no directory: make it first")
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
