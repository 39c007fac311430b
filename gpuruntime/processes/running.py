"""What a process does first: logging, with the fields of requests; and how it runs."""

import logging
from typing import TextIO

from gpuruntime.control import LogFormat
from gpuruntime.control import configure_logging as configure_library_logging
from gpuruntime.processes.process_loop import raise_open_files, run_process
from gpuruntime.service.log_context import RequestFields

__all__ = ["configure_logging", "raise_open_files", "run_process"]


def configure_logging(
    stream: TextIO | None = None,
    *,
    level: int = logging.INFO,
    format: LogFormat = "auto",  # noqa: A002 - what logging itself calls it
) -> None:
    """Log to `stream`, by default standard error. Lines of a request carry its request id."""
    configure_library_logging(stream, level=level, format=format, filters=[RequestFields()])
