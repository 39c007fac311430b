"""`gpuruntime accessor`: serves one directory read-only over HTTP, to requests that the access gateway signed.

The controllers run it as a pod beside a storage. It has no credentials, and opens no connections.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

from gpuruntime.control import HttpAddress, HttpLimits, ListenError
from gpuruntime.control.serving import serving
from gpuruntime.gateway.accessor.app import accessor_app
from gpuruntime.gateway.accessor.volume import Volume
from gpuruntime.gateway.signing.bearer import BearerCheck
from gpuruntime.gateway.signing.keys import AccessKeyError, PublicKeys
from gpuruntime.processes.config.notations import ADDRESS, NotationError
from gpuruntime.processes.running import configure_logging, run_process

__all__ = ["COMMAND"]

_LIMITS: Final = HttpLimits(connections=256, per_address=256)
_DRAIN_SECONDS: Final = 3.0


async def _serve(directory: Path, address: HttpAddress, bearers: BearerCheck) -> None:
    """Serve until SIGTERM or SIGINT."""
    volume, stopping = Volume(directory), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        async with serving(accessor_app(volume, bearers), address, drain=_DRAIN_SECONDS, limits=_LIMITS) as bound:
            print(f"serving {directory} on {bound.url}", flush=True)
            await stopping.wait()
    finally:
        volume.close()


class _AccessorCommand:
    """Serves a directory."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add description and flags."""
        parser.description = (
            "Serve a directory read-only over HTTP, below /files/, until SIGTERM or Ctrl-C. Every request needs a"
            " bearer that the access gateway signed for this storage in the last minute."
        )
        parser.add_argument("--directory", type=Path, required=True, metavar="DIR", help="the directory to serve")
        parser.add_argument("--address", default="127.0.0.1:8080", metavar="HOST:PORT", help="address to listen on")
        parser.add_argument("--audience", required=True, metavar="UID", help="UID of the storage")
        parser.add_argument(
            "--public-key",
            action="append",
            default=[],
            metavar="KEY",
            help="public key of the gateway, printed by `gpuruntime access-key`; two while keys are rotated",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve; 1 if the directory, the address or a key is invalid."""
        try:
            address = ADDRESS.parse(arguments.address)
            bearers = BearerCheck(PublicKeys(arguments.public_key), arguments.audience)
            configure_logging()
            run_process(_serve(arguments.directory, address, bearers))
        except (AccessKeyError, ListenError, NotationError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        return 0


COMMAND: Final = _AccessorCommand()
