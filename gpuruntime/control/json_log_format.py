"""The JSON log format: one object per line."""

import logging
from datetime import UTC, datetime

from pythonjsonlogger.json import JsonFormatter

__all__ = ["json_formatter"]


class _JsonFormatter(JsonFormatter):
    """Times in UTC as Kubernetes writes them, because local times without a zone cannot be compared with other logs."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802, ARG002 - logging's signature
        moment = datetime.fromtimestamp(record.created, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_formatter() -> logging.Formatter:
    """A formatter for time, level, logger, message and all fields of a log record."""
    renamed = {"asctime": "time", "levelname": "level", "name": "logger"}
    return _JsonFormatter("{asctime}{levelname}{name}{message}", style="{", rename_fields=renamed)
