"""The audit log of streams: one line on logger `gpuruntime.audit` for each, refused ones included."""

import logging

from attrs import define

__all__ = ["StreamRecord", "audit_stream"]

_LOG = logging.getLogger("gpuruntime.audit")


@define
class StreamRecord:
    """What is known of a stream so far. `status` stays 0 if the caller disconnected before the response."""

    method: str
    path: str
    request_id: str
    remote: str
    caller: str = ""
    namespace: str = ""
    storage: str = ""
    storage_uid: str = ""
    status: int = 0
    code: str = ""
    sent: int = 0
    end: str = "client_closed"


def audit_stream(record: StreamRecord, seconds: float) -> None:
    """Log a stream: who read what, how much of it, how long it took and how it ended. Content is never logged."""
    _LOG.info(
        "stream ended",
        extra={
            "caller": record.caller,
            "method": record.method,
            "namespace": record.namespace,
            "storage": record.storage,
            "storage_uid": record.storage_uid,
            # Percent-encoded and without a query: a caller cannot forge a line with it, nor leave a secret in it.
            "path": record.path,
            "status": record.status,
            "code": record.code,
            "bytes": record.sent,
            "seconds": round(seconds, 3),
            "end": record.end,
            "request_id": record.request_id,
            "remote": record.remote,
        },
    )
