"""The audit log: one line on logger `gpuruntime.audit` for each write request, rejected ones included."""

import logging
from typing import Final

from aiohttp import web
from attrs import define

from gpuruntime.endpoints.server.route import Caller

__all__ = ["AuditRecord", "audit"]

_LOG = logging.getLogger("gpuruntime.audit")
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@define
class AuditRecord:
    """What is known of a request so far. `status` stays 0 if the connection ends before the response."""

    request_id: str
    caller: Caller | None = None
    operation_id: str = ""
    status: int = 0
    code: str = ""


def audit(request: web.Request, record: AuditRecord) -> None:
    """Log a write: caller, method, path, operationID and outcome. Reads are not logged, and bodies never are."""
    if request.method in _READS:
        return
    _LOG.info(
        "write request",
        extra={
            "caller": "" if record.caller is None else record.caller.name,
            "method": request.method,
            # The raw path is percent-encoded: a caller cannot forge a line with it.
            "path": request.rel_url.raw_path,
            "operation_id": record.operation_id,
            "status": record.status,
            "code": record.code,
            "request_id": record.request_id,
            "remote": request.remote or "",
        },
    )
