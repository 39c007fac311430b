"""The audit log: a line for each write that somebody asked for, refused ones included, on logger `gpuruntime.audit`."""

import logging
from typing import Final

from aiohttp import web
from attrs import define

from gpuruntime.web.server.route import Caller

__all__ = ["Attempt", "audit"]

_LOG = logging.getLogger("gpuruntime.audit")
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@define
class Attempt:
    """What became known of a request before it ended; `status` stays 0 if it was broken off without an answer."""

    request_id: str
    caller: Caller | None = None
    operation_id: str = ""
    status: int = 0
    code: str = ""


def audit(request: web.Request, attempt: Attempt) -> None:
    """Note a write: who, what, under which operationID, with what end. Reads are not noted, nor is what was written."""
    if request.method in _READS:
        return
    _LOG.info(
        "write request",
        extra={
            "caller": "" if attempt.caller is None else attempt.caller.name,
            "method": request.method,
            # As it was sent: no line can be forged with what is escaped in it.
            "path": request.rel_url.raw_path,
            "operation_id": attempt.operation_id,
            "status": attempt.status,
            "code": attempt.code,
            "request_id": attempt.request_id,
            "remote": request.remote or "",
        },
    )
