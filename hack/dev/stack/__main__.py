"""The command line of `hack/up`, `hack/down` and `hack/env`."""

import argparse
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from gpuruntime.testing import ClusterError, assets, default_nodes, require_real_node
from gpuruntime.testing.assets import BuildError, ToolchainError
from gpuruntime.testing.processes.supervised import SupervisorError
from hack.dev.stack.clusters import StackError, given, kind, local, local_with_real_node
from hack.dev.stack.running import Interrupted, StackOptions, choose_port, run_stack, stop_stack
from hack.dev.stack.state import AlreadyUpError, RunningStack, owner_of, state_directory

__all__ = ["main"]

_FUNCTIONS = Path(__file__).resolve().parents[3] / "examples" / "functions"


def main(argv: list[str]) -> int:
    """Run `up`, `down` or `env`; a user error is one line on standard error and exit code 1."""
    command, *rest = argv
    try:
        if command == "up":
            _up(rest)
        elif command == "down":
            argparse.ArgumentParser(prog="hack/down", description="Stop the stack that hack/up started.").parse_args(
                rest
            )
            print(stop_stack(state_directory()))
        else:
            _env(rest)
    except (StackError, AlreadyUpError, ClusterError, SupervisorError, BuildError, ToolchainError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (Interrupted, KeyboardInterrupt):
        return 0
    return 0


def _up(argv: list[str]) -> None:
    arguments = _up_parser().parse_args(argv)
    directory = state_directory()
    nodes = default_nodes(arguments.nodes, arguments.gpus, arguments.node_cpu, arguments.node_memory)
    if arguments.detach:
        _detach([argument for argument in argv if argument != "--detach"], arguments, directory)
        return
    if arguments.kubeconfig is not None:
        cluster = partial(given, arguments.kubeconfig, directory)
    elif arguments.kind:
        cluster = partial(kind, directory, nodes)
    elif arguments.real_node:
        cluster = partial(local_with_real_node, directory, nodes, audit=arguments.audit)
    else:
        cluster = partial(local, directory, nodes, arguments.functions, audit=arguments.audit)
    # A node that runs containers is no larger than this machine.
    sample = "gpuunit-small.yaml" if arguments.real_node else "gpuunit.yaml"
    run_stack(StackOptions(directory, cluster, arguments.port, arguments.functions, sample))


def _detach(argv: list[str], arguments: argparse.Namespace, directory: Path) -> None:
    if arguments.kubeconfig is None:
        # In the foreground, so that the progress of a long build is visible.
        assets.ensure()
        assets.ensure(of=assets.NATS)
    if arguments.real_node:
        require_real_node()
        assets.ensure(of=assets.NODE)
    choose_port(arguments.port)
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "up.log"
    with log.open("wb") as output:
        owner = subprocess.Popen(
            [sys.executable, "-m", "hack.dev.stack", "up", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    shown = 0
    while True:
        running = RunningStack.load(directory)
        words = log.read_text()
        print(words[shown:], end="", flush=True)
        shown = len(words)
        if running is not None and running.pid == owner.pid:
            return
        if owner.poll() is not None:
            raise StackError(f"the stack did not come up; log: {log}")
        time.sleep(0.1)  # the file appears when the stack is ready: there is no event to await


def _env(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="hack/env", description='Print what a shell needs to use the running stack: eval "$(./hack/env)".'
    )
    parser.parse_args(argv)
    running = RunningStack.load(state_directory())
    if running is None or owner_of(state_directory()) != running.pid:
        raise StackError("the stack is not running: start it with ./hack/up")
    print(running.exports())


def _up_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/up",
        allow_abbrev=False,  # an abbreviated --detach would be passed on to the child, which would detach again
        description="Start a cluster and the product in it, in the foreground; Ctrl-C stops both. The cluster is a real"
        " Kubernetes control plane on this machine with fake GPU nodes, unless you name another.",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use the cluster of this kubeconfig")
    where.add_argument("--kind", action="store_true", help="create a kind cluster (needs Docker and kind)")
    where.add_argument(
        "--real-node",
        action="store_true",
        help="add a node that runs containers, with four GPUs that are names only; the fake nodes are tainted (needs"
        " Linux and root)",
    )
    parser.add_argument("--port", type=int, help="port of the API on 127.0.0.1 (default: 8080, or any free port)")
    parser.add_argument("--nodes", type=int, default=4, help="number of fake GPU nodes (default: %(default)s)")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of each node (default: %(default)s)")
    parser.add_argument(
        "--node-cpu", default="128", metavar="QUANTITY", help="CPUs of each node (default: %(default)s)"
    )
    parser.add_argument(
        "--node-memory", default="1Ti", metavar="QUANTITY", help="memory of each node (default: %(default)s)"
    )
    parser.add_argument(
        "--functions",
        type=_directory,
        default=_FUNCTIONS,
        metavar="DIRECTORY",
        help="the only directory whose Python functions workers run (default: examples/functions)",
    )
    parser.add_argument("--audit", action="store_true", help="log every request to the local API server")
    parser.add_argument("--detach", action="store_true", help="return when everything is ready; hack/down stops it")
    return parser


def _directory(text: str) -> Path:
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"expected a directory, got {text}")
    return Path(text).resolve()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
