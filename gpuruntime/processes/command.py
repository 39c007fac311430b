"""The `gpuruntime` command: picks the process to run, and imports nothing of the others."""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Final, NoReturn, Protocol

from attrs import frozen

from gpuruntime import __version__

__all__ = ["main"]


class _Module(Protocol):
    """What the module of a command has."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Say what the command is, and what flags it has."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do what the command line says; gives the exit code."""


@frozen
class _Command:
    """One command; its module is loaded if it is the one that was asked for."""

    help: str
    load: Callable[[], _Module]


def _manager() -> _Module:
    from gpuruntime.processes import manager_command  # noqa: PLC0415 - see _Command

    return manager_command


def _controller_manager() -> _Module:
    from gpuruntime.processes import controller_manager_command  # noqa: PLC0415 - see _Command

    return controller_manager_command


def _runtime_api() -> _Module:
    from gpuruntime.processes import runtime_api_command  # noqa: PLC0415 - see _Command

    return runtime_api_command


def _token() -> _Module:
    from gpuruntime.processes import token_command  # noqa: PLC0415 - see _Command

    return token_command


def _generate() -> _Module:
    from gpuruntime.processes import generate  # noqa: PLC0415 - see _Command

    return generate


_COMMANDS: Final[Mapping[str, _Command]] = {
    "manager": _Command("run everything in one process", _manager),
    "controller-manager": _Command("run the reconcilers; one of several replicas leads", _controller_manager),
    "runtime-api": _Command("serve the API, in any number of replicas", _runtime_api),
    "token": _Command("make a bearer token for the API", _token),
    "generate": _Command("write manifests from code: crds, rbac", _generate),
}


def main(argv: list[str] | None = None) -> int:
    """Run a process to its end. A mistake of the user's is a line on standard error and exit code 1 or 2."""
    words = sys.argv[1:] if argv is None else argv
    arguments = _parser(words).parse_args(words)
    return _COMMANDS[arguments.command].load().run(arguments)


class _Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, as everything else here does."""

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"error: {message}; `{self.prog} --help` tells what there is\n")


def _parser(words: list[str]) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="gpuruntime",
        description="Runtime control plane of a GPU cloud on Kubernetes.",
        epilog="`gpuruntime COMMAND --help` tells what a command takes. On a fresh machine, `./hack/up` of the"
        " repository starts a cluster and this command in it.",
    )
    parser.add_argument("--version", action="version", version=f"gpuruntime {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in words if not word.startswith("-")), "")
    for name, command in _COMMANDS.items():
        added = commands.add_parser(name, help=command.help)
        if name == asked:
            command.load().add(added)
    return parser


if __name__ == "__main__":
    sys.exit(main())
