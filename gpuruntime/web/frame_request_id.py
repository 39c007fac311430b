"""A name for each request, by which its answer, its log lines and its audit line are found again."""

import logging
import re
from contextvars import ContextVar
from typing import Final
from uuid import uuid4

__all__ = ["REQUEST_ID", "RequestFields", "current_request_id", "sane_request_id"]

REQUEST_ID: Final = "X-Request-ID"
_SANE: Final = re.compile(r"[A-Za-z0-9._:@=+/-]{1,128}")

current_request_id: ContextVar[str] = ContextVar("gpuruntime_request_id", default="")
"""The request that the running code serves; "" if it serves none."""


def sane_request_id(offered: str | None) -> str:
    """The id that the caller offered if it can stand in a log, else a new one."""
    return offered if offered is not None and _SANE.fullmatch(offered) else uuid4().hex


class RequestFields(logging.Filter):
    """Adds request_id to every line that anybody logs while serving a request. Put it on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        current = current_request_id.get()
        if current:
            record.request_id = current
        return True
