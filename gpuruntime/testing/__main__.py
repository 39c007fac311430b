"""The command line of the test kit: build the binaries, or run a cluster or a real node in the foreground."""

import argparse
import contextlib
import os
import select
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuruntime.testing import assets
from gpuruntime.testing.assets import BuildError, ToolchainError
from gpuruntime.testing.cluster.access import ClusterAccess
from gpuruntime.testing.cluster.local import ClusterError, LocalCluster
from gpuruntime.testing.cluster.nodes import default_nodes
from gpuruntime.testing.node.real import RealNode
from gpuruntime.testing.node.requirements import require_real_node
from gpuruntime.testing.node.shared import SHARED_GPUS, SHARED_KUBELET, NodeAccess
from gpuruntime.testing.processes.supervised import SupervisorError

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Run the command; a failure is one line on standard error and exit code 1."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "assets":
            _assets(arguments)
        elif arguments.command == "cluster":
            _until_stopped(arguments, _cluster)
        else:
            _until_stopped(arguments, _node)
    except (BuildError, ToolchainError, ClusterError, SupervisorError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuruntime.testing",
        description="A real Kubernetes control plane on this machine, without Docker: etcd, kube-apiserver,"
        " kube-controller-manager, kube-scheduler, and kwok with fake GPU nodes.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    binaries = commands.add_parser(
        "assets",
        help="print the directory with the binaries; build them first if necessary",
        description="Print the directory with the control plane's binaries: KUBEBUILDER_ASSETS if it is complete,"
        " otherwise the user's cache. An empty cache is filled by a build from Go modules, which takes about ten"
        " minutes, once.",
    )
    others = binaries.add_mutually_exclusive_group()
    others.add_argument("--node", action="store_true", help="the programs of a real node, instead of the control plane")
    others.add_argument("--nats", action="store_true", help="the NATS server, instead of the control plane")
    cluster = commands.add_parser(
        "cluster",
        help="run a cluster in the foreground",
        description="Run a cluster until Ctrl-C or SIGTERM. The administrator's kubeconfig is"
        " DIRECTORY/admin.kubeconfig.",
    )
    cluster.add_argument("directory", type=Path, help="directory for state and logs; one cluster per directory")
    cluster.add_argument("--nodes", type=int, default=4, help="number of fake nodes (default: %(default)s)")
    cluster.add_argument("--gpus", type=int, default=8, help="GPUs per node (default: %(default)s)")
    cluster.add_argument("--audit", action="store_true", help="log every request to DIRECTORY/audit.log")
    cluster.add_argument(
        "--real-nodes", type=int, default=0, help="number of nodes that run containers; needs root (default: 0)"
    )
    _add_owner(cluster)
    node = commands.add_parser(
        "node",
        help="run a real node of a cluster in the foreground; needs root",
        description="Run a node that runs containers until Ctrl-C or SIGTERM, in the cluster that runs in the given"
        " directory. Pods that tolerate the taint gpuruntime.local/real-node run there.",
    )
    node.add_argument("directory", type=Path, help="directory for state, images and logs; one node per directory")
    node.add_argument("--cluster", type=Path, required=True, metavar="DIRECTORY", help="the directory of the cluster")
    _add_owner(node)
    return parser


def _add_owner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--owner", type=int, metavar="PID", help="also stop when this process ends, and remove DIRECTORY then"
    )


def _assets(arguments: argparse.Namespace) -> None:
    if arguments.node:
        require_real_node()
        print(assets.ensure(of=assets.NODE))
    elif arguments.nats:
        print(assets.ensure(of=assets.NATS))
    else:
        print(assets.ensure())


def _until_stopped(
    arguments: argparse.Namespace, running: Callable[[argparse.Namespace], contextlib.AbstractContextManager[None]]
) -> None:
    signal.signal(signal.SIGTERM, _interrupt)
    orphaned = threading.Event()
    if arguments.owner is not None:
        threading.Thread(target=_end_with, args=(arguments.owner, orphaned), daemon=True).start()
    try:
        with running(arguments):
            threading.Event().wait()
    except KeyboardInterrupt:
        return
    finally:
        if orphaned.is_set():
            shutil.rmtree(arguments.directory, ignore_errors=True)


@contextlib.contextmanager
def _cluster(arguments: argparse.Namespace) -> Iterator[None]:
    with LocalCluster(
        arguments.directory,
        nodes=default_nodes(arguments.nodes, arguments.gpus),
        real_nodes=arguments.real_nodes,
        audit=arguments.audit,
    ) as cluster:
        access = cluster.access
        print(f"export KUBECONFIG={access.kubeconfig} KUBECACHEDIR={access.kubectl_cache}", flush=True)
        yield


@contextlib.contextmanager
def _node(arguments: argparse.Namespace) -> Iterator[None]:
    access = ClusterAccess.load(arguments.cluster)
    if access is None:
        raise ClusterError(f"--cluster {arguments.cluster}: no cluster runs in this directory")
    with RealNode(access, arguments.directory, gpus=SHARED_GPUS, kubelet=SHARED_KUBELET) as node:
        NodeAccess(node.name, node.layout.images).save(arguments.directory)
        try:
            yield
        finally:
            NodeAccess.withdraw(arguments.directory)


def _interrupt(*_: object) -> None:
    """Interrupt the command, also during a build that takes minutes, but not the cleanup that follows."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with(pid: int, orphaned: threading.Event) -> None:
    with contextlib.suppress(ProcessLookupError):
        select.select([os.pidfd_open(pid)], [], [])
    orphaned.set()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
