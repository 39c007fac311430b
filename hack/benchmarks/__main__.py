"""The command line of `hack/bench`."""

import argparse
import json
import signal
import sys

from gpuruntime.testing import ClusterError
from gpuruntime.testing.assets import BuildError, ToolchainError
from gpuruntime.testing.nats import NatsError
from gpuruntime.testing.processes.supervised import SupervisorError
from gpuruntime.testing.progress import Progress
from hack.benchmarks.api_bench import add_api
from hack.benchmarks.cache import SetUpError
from hack.benchmarks.charts import update
from hack.benchmarks.creating import ObjectsError
from hack.benchmarks.functions_bench import add_functions
from hack.benchmarks.library_bench import add_library
from hack.benchmarks.operator_bench import add_operator
from hack.benchmarks.report import as_json, as_table

__all__ = ["main"]

_FAULTS = (SetUpError, ObjectsError, ClusterError, SupervisorError, BuildError, ToolchainError, NatsError, OSError)


def main(argv: list[str]) -> int:
    """Run a bench; exit code 0 if every bar is met, 1 if one is not or a bench fails, 130 after Ctrl-C.

    With --plot and no bench, draw the charts of the documentation.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.plot == (arguments.kind is not None):
        parser.error("expected one of: library, operator, api, functions, --plot")
    if arguments.plot:
        return update(check=False)
    # SIGTERM cleans up like Ctrl-C, which a shell disables for background jobs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    progress = Progress(sys.stderr)
    try:
        report = arguments.measure(arguments, progress)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/bench",
        description="Measure ours beside Go's controller-runtime and the Python peers: on this machine, in turns, each"
        " run in a fresh process.",
        epilog="`hack/bench KIND --help` says what is measured and what it takes. Quiet the machine first: everything"
        " that is measured shares its cores with the control plane of a cluster.",
    )
    parser.add_argument(
        "--plot",
        action="store_true",
        help="measure nothing: draw docs/pictures/charts from hack/benchmarks/results, which --json writes",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND")
    add_library(kinds)
    add_operator(kinds)
    add_api(kinds)
    add_functions(kinds)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
