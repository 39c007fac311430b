"""The `gpuruntime` command: picks the process to run."""

import argparse
import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, Final, NoReturn

from gpuruntime import __version__
from gpuruntime.aio.collector import collect_rarely
from gpuruntime.control.operations.http_site import ListenError
from gpuruntime.kube.errors import CredentialsError
from gpuruntime.processes.generate import add_generate, generate
from gpuruntime.processes.logs import configure_logging
from gpuruntime.processes.manager import NoClusterError, run_manager
from gpuruntime.processes.options import SettingsError, add_manager, settings_of
from gpuruntime.processes.token_command import add_token, token
from gpuruntime.web.authentication import UnguardedAddressError
from gpuruntime.web.authentication_tokens import TokenFileError
from gpuruntime.web.serving_certificate import CertificateError

__all__ = ["main"]

_MISTAKES: Final = (
    SettingsError,
    CredentialsError,
    NoClusterError,
    UnguardedAddressError,
    TokenFileError,
    CertificateError,
    ListenError,
)


def main(argv: list[str] | None = None) -> int:
    """Run a process to its end. A mistake of the user's is one line on standard error and exit code 1 or 2."""
    arguments = _parser().parse_args(argv)
    if arguments.command == "generate":
        return generate(arguments)
    if arguments.command == "token":
        return token(arguments)
    try:
        settings = settings_of(arguments)
        configure_logging()
        _run(run_manager(settings))
    except _MISTAKES as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(process: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop where it is installed: it saves a quarter of the CPU."""
    collect_rarely()
    try:
        from uvloop import new_event_loop  # noqa: PLC0415 - the extra `fast`
    except ImportError:
        asyncio.run(process)
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(process)


class _Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, as everything else here does."""

    def error(self, message: str) -> NoReturn:
        self.exit(1, f"error: {message}; `{self.prog} --help` tells what there is\n")


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="gpuruntime",
        description="Runtime control plane of a GPU cloud on Kubernetes.",
        epilog="`gpuruntime COMMAND --help` tells what a command takes. On a fresh machine, `./hack/up` of the"
        " repository starts a cluster and this command in it.",
    )
    parser.add_argument("--version", action="version", version=f"gpuruntime {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_manager(commands)
    add_token(commands)
    add_generate(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
