"""`gpuruntime sidecar`: brings a worker's program invocations from an activator. One per worker.

The controllers run it as a container beside the program. It is configured by environment variables alone.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from gpuruntime.dispatch.sidecar.service import serve_sidecar
from gpuruntime.dispatch.sidecar.settings import VARIABLES, SettingsError, SidecarSettings, read_settings
from gpuruntime.processes.process_loop import run_process

__all__ = ["COMMAND"]

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_BAD_ENVIRONMENT: Final = 2


class _JsonLines(logging.Formatter):
    """One JSON object a line, with the fields of the other processes. Their format would import all they need."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _STANDARD},
        }
        if record.exc_info:
            fields["exc_info"] = self.formatException(record.exc_info)
        return orjson.dumps(fields, default=str).decode()


async def _serve(settings: SidecarSettings) -> None:
    """Serve until SIGTERM or SIGINT, and then until what runs has ended; a second signal ends the process at once."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        if stopping.is_set():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    await serve_sidecar(
        settings,
        stopping,
        started=lambda port: print(f"serving {settings.function} on port {port}", flush=True),
    )


class _SidecarCommand:
    """Runs a sidecar."""

    def add(self, parser: argparse.ArgumentParser) -> None:
        """Add the description. There are no flags."""
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.description = (
            "Bring invocations from an activator to the program of a worker, over a unix socket, and their results"
            " back,\nuntil SIGTERM or Ctrl-C; what runs is finished first. The controllers start it beside each worker."
        )
        width = max(map(len, VARIABLES))
        lines = [f"  {name:<{width}}  {help_}" for name, help_ in VARIABLES.items()]
        parser.epilog = "environment, with defaults in parentheses:\n" + "\n".join(lines)

    def run(self, _arguments: argparse.Namespace) -> int:
        """Serve; 2 if a variable is missing or invalid, 1 if the port of the probes is taken."""
        try:
            settings = read_settings(os.environ)
        except SettingsError as error:
            for problem in error.problems:
                print(f"error: {problem}", file=sys.stderr)
            return _BAD_ENVIRONMENT
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_JsonLines())
        logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
        try:
            run_process(_serve(settings))
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        return 0


COMMAND: Final = _SidecarCommand()
