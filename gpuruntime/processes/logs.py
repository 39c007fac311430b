"""Where logging is configured: JSON lines for machines, short lines for a person at a terminal."""

import logging
import sys
from typing import TextIO

from pythonjsonlogger.json import JsonFormatter

from gpuruntime.control.controllers.log_context import ReconcileFields
from gpuruntime.web.frame_request_id import RequestFields

__all__ = ["configure_logging"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _HumanFormatter(logging.Formatter):
    """`12:00:00 INFO  message  key=value`: the message is constant, the fields follow it."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in vars(record).items() if name not in _STANDARD)
        line = f"{self.formatTime(record, '%H:%M:%S')} {record.levelname:<5} {record.getMessage()}"
        if fields:
            line = f"{line}  {fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def configure_logging(stream: TextIO = sys.stderr, level: int = logging.INFO) -> None:
    """Send every log line of the process to `stream`, in the form that suits its reader."""
    handler = logging.StreamHandler(stream)
    if stream.isatty():
        handler.setFormatter(_HumanFormatter())
    else:
        fields = "{asctime}{levelname}{name}{message}"
        renamed = {"asctime": "time", "levelname": "level", "name": "logger"}
        handler.setFormatter(JsonFormatter(fields, style="{", rename_fields=renamed))
    handler.addFilter(ReconcileFields())
    handler.addFilter(RequestFields())
    logging.basicConfig(handlers=[handler], level=level, force=True)
