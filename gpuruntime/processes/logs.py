"""Where the logging of a process is configured: the library's lines, and on each the request that it belongs to."""

import logging
from typing import TextIO

from gpuruntime.control import LogFormat, log_format
from gpuruntime.service.log_context import RequestFields

__all__ = ["configure_logging"]


def configure_logging(
    stream: TextIO | None = None,
    *,
    level: int = logging.INFO,
    format: LogFormat = "auto",  # noqa: A002 - what logging itself calls it
) -> None:
    """Send every log line of the process to `stream`, in the form that suits its reader."""
    log_format.configure_logging(stream, level=level, format=format, filters=[RequestFields()])
