"""A name for each request, by which its answer, its log lines and its audit line are found again."""

import re
from typing import Final
from uuid import uuid4

__all__ = ["REQUEST_ID", "sane_request_id"]

REQUEST_ID: Final = "X-Request-ID"
_SANE: Final = re.compile(r"[A-Za-z0-9._:@=+/-]{1,128}")


def sane_request_id(offered: str | None) -> str:
    """The id that the caller offered if it can stand in a log, else a new one."""
    return offered if offered is not None and _SANE.fullmatch(offered) else uuid4().hex
