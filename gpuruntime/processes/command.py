"""The `gpuruntime` command: picks the process to run."""

import argparse
import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from gpuruntime import __version__
from gpuruntime.control.operations.http_site import HttpAddress, ListenError
from gpuruntime.kube.errors import CredentialsError
from gpuruntime.kube.kubeconfig import find, from_kubeconfig
from gpuruntime.processes.generate import add_generate, generate
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.manager import run_manager

__all__ = ["http_address", "main"]


def main(argv: list[str] | None = None) -> int:
    """Run a process to its end. A mistake of the user's is one line on standard error and exit code 1 or 2."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "generate":
        return generate(arguments)
    configure_logging()
    try:
        credentials = find() if arguments.kubeconfig is None else from_kubeconfig(arguments.kubeconfig)
        _run(run_manager(credentials, arguments.http_addr))
    except (CredentialsError, ListenError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(process: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed: it saves a quarter of the CPU."""
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - the extra `fast`
    except ImportError:
        asyncio.run(process)
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(process)


def http_address(text: str) -> HttpAddress:
    """Read `host:port`, `:port` (every interface) or `[v6]:port`."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"expected host:port with a port of 0 to 65535, got {text!r}")
    return HttpAddress(host.removeprefix("[").removesuffix("]") or "0.0.0.0", int(port))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpuruntime",
        description="Runtime control plane of a GPU cloud on Kubernetes.",
        epilog="`gpuruntime COMMAND --help` tells what a command takes. On a fresh machine, `./hack/up` of the"
        " repository starts a cluster and this command in it.",
    )
    parser.add_argument("--version", action="version", version=f"gpuruntime {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    manager = commands.add_parser(
        "manager",
        help="run everything in one process",
        description="Run everything in one process until SIGTERM or Ctrl-C. / lists the routes, /healthz and /readyz"
        " are for probes, /metrics for Prometheus.",
    )
    manager.add_argument(
        "--http-addr",
        type=http_address,
        default=http_address("127.0.0.1:8080"),
        metavar="HOST:PORT",
        help="where the API listens; :8080 is port 8080 of every interface (default: 127.0.0.1:8080)",
    )
    manager.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="the cluster and who we are in it (default: KUBECONFIG, else ~/.kube/config, else the pod's own account)",
    )
    add_generate(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
