"""Log lines that show their fields: JSON for machines, short lines for a person at a terminal."""

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
    format: LogFormat = "auto",  # noqa: A002 - what logging itself calls it
    filters: Iterable[logging.Filter] = (),
) -> None:
    """Send every log line of the process to `stream` (standard error), with its fields and those of its run.

    For programs that have no logging of their own: what was configured before is replaced. "auto" is one line of text
    on a terminal, and one JSON object a line elsewhere. `filters` may add fields of their own to every line; those of
    `ReconcileFields` are there already. A program with logging of its own adds `ReconcileFields` to its handlers
    instead, and shows what is in `extra`.

    Raises:
        ValueError: a level or a format that does not exist.
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
    """`12:00:00 INFO  message  key=value`: the message is constant, the fields follow it."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={_shown(value)}" for name, value in vars(record).items() if name not in _STANDARD)
        lines = [f"{self.formatTime(record, '%H:%M:%S')} {record.levelname:<5} {record.getMessage()}"]
        if fields:
            lines[0] = f"{lines[0]}  {fields}"
        if record.exc_info:
            lines.append(self.formatException(record.exc_info))
        if record.stack_info:
            lines.append(self.formatStack(record.stack_info))
        return "\n".join(lines)


def _json_formatter() -> logging.Formatter:
    # A library of its own, of which a program that logs otherwise has no use.
    from gpuruntime.control.json_log_format import json_formatter  # noqa: PLC0415 - half a megabyte

    return json_formatter()


def _shown(value: Any) -> str:
    """A value as one word: in quotes if it has blanks, or a line of its own could be read into it."""
    text = str(value)
    plain = text.isprintable() and not any(character in text for character in ' "=') and text != ""
    return text if plain else json.dumps(text, ensure_ascii=False)
