"""The `gpuruntime` command: runs one of its commands, and imports only the module of that one."""

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NoReturn, Protocol

from attrs import frozen

from gpuruntime import __version__

__all__ = ["main"]

_TERMINATED: Final = 128 + signal.SIGTERM


class _Command(Protocol):
    """What the module of a command has as `COMMAND`."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add description and flags."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run with parsed flags; returns the exit code."""


@frozen
class _Row:
    """A command: its line in --help, and the module that has it as `COMMAND`."""

    help: str
    module: str

    def load(self) -> _Command:
        command: _Command = import_module(self.module).COMMAND
        return command


_COMMANDS: Final[Mapping[str, _Row]] = {
    "manager": _Row("run everything in one process", "gpuruntime.processes.manager"),
    "controller-manager": _Row(
        "run the reconcilers; one of several replicas leads", "gpuruntime.processes.controller_manager"
    ),
    "runtime-api": _Row("serve the API, in any number of replicas", "gpuruntime.processes.runtime_api"),
    "access-gateway": _Row(
        "serve the files of storages, in any number of replicas", "gpuruntime.processes.access_gateway"
    ),
    "activator": _Row("bring invocations to workers, in any number of replicas", "gpuruntime.processes.activator"),
    "result-store": _Row("archive ended invocations, and serve them to the API", "gpuruntime.processes.result_store"),
    "sidecar": _Row("bring invocations to the program of a worker", "gpuruntime.processes.sidecar"),
    "back-up": _Row("copy the database of the result store, while it runs", "gpuruntime.processes.back_up"),
    "accessor": _Row("serve one directory behind the access gateway", "gpuruntime.processes.accessor"),
    "access-key": _Row("create the signing key of the access gateway", "gpuruntime.processes.access_keys"),
    "token": _Row("create a bearer token for the API", "gpuruntime.processes.tokens"),
    "generate": _Row("write manifests from code: crds, rbac, nats-users", "gpuruntime.processes.generate.command"),
}


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code. A user error is one line on standard error, and exit code 1 or 2."""
    if os.getpid() == 1:
        # The kernel drops a signal that process 1 has no handler for: a pod that is deleted while this imports its
        # modules would end with its grace period only.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    words = sys.argv[1:] if argv is None else argv
    arguments = _parser(words).parse_args(words)
    return _COMMANDS[arguments.command].load().run(arguments)


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line, and takes no abbreviated flags: a new flag could make them ambiguous."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"error: {message}; see `{self.prog} --help`\n")


def _parser(words: list[str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="gpuruntime",
        description="Runtime control plane of a GPU cloud on Kubernetes.",
        epilog="`gpuruntime COMMAND --help` shows the flags of a command. `./hack/up` in the repository starts a local"
        " cluster with this command in it.",
    )
    parser.add_argument("--version", action="version", version=f"gpuruntime {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in words if not word.startswith("-")), "")
    for name, row in _COMMANDS.items():
        added = commands.add_parser(name, help=row.help)
        if name == asked:
            row.load().add(added)
    return parser


if __name__ == "__main__":
    sys.exit(main())
