"""Structured logs: JSON for machines, short text lines on a terminal."""

import json
import logging
import sys
from collections.abc import Iterable
from typing import Any, Literal, TextIO

from gpuruntime.control.controllers.log_context import ReconcileFields

__all__ = ["LogFormat", "configure_logging"]

LogFormat = Literal["auto", "json", "text"]
_FORMATS: tuple[LogFormat, ...] = ("auto", "json", "text")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logging(
    stream: TextIO | None = None,
    *,
    level: int | str = logging.INFO,
    format: LogFormat = "auto",  # noqa: A002 - the name that logging uses
    filters: Iterable[logging.Filter] = (),
) -> None:
    """Send every log line of the process to `stream` (default: standard error), with all of its fields.

    For programs without a logging setup of their own: any earlier setup is replaced. "auto" means text on a terminal
    and JSON elsewhere, one object per line. Lines carry the fields of `extra`, of `ReconcileFields`, and of `filters`.
    A program with its own logging setup adds `ReconcileFields` to its handlers instead and formats `extra` itself.

    Raises:
        ValueError: unknown level or format.
    """
    if format not in _FORMATS:
        raise ValueError(f"format: expected one of {', '.join(_FORMATS)}, got {format!r}")
    if isinstance(level, str) and level.upper() not in logging.getLevelNamesMapping():
        raise ValueError(f"level: expected one of debug, info, warning, error, critical, got {level!r}")
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    as_text = handler.stream.isatty() if format == "auto" else format == "text"
    handler.setFormatter(_TextFormatter() if as_text else _json_formatter())
    for each in (ReconcileFields(), *filters):
        handler.addFilter(each)
    logging.basicConfig(handlers=[handler], level=level.upper() if isinstance(level, str) else level, force=True)


class _TextFormatter(logging.Formatter):
    """Lines like `12:00:00 INFO  message  key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={_quoted(value)}" for name, value in vars(record).items() if name not in _STANDARD)
        lines = [f"{self.formatTime(record, '%H:%M:%S')} {record.levelname:<5} {record.getMessage()}"]
        if fields:
            lines[0] = f"{lines[0]}  {fields}"
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        if record.stack_info:
            lines.append(self.formatStack(record.stack_info))
        return "\n".join(lines)


def _json_formatter() -> logging.Formatter:
    # Imports a library that programs with another format do not need.
    from gpuruntime.control.json_log_format import json_formatter  # noqa: PLC0415 - saves half a megabyte

    return json_formatter()


def _quoted(value: Any) -> str:
    """A value as one word: quoted if it has blanks, or characters that could fake a field or another line."""
    text = str(value)
    plain = text.isprintable() and not any(character in text for character in ' "=') and text != ""
    return text if plain else json.dumps(text, ensure_ascii=False)
