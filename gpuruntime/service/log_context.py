"""Request fields of log lines: `request_id` and `operation_id`, in every process that works on a request.

A request has an id and, if it writes, an operationID. The Operation stores both, so that a replica that takes the
Operation over logs under the same ids.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gpuruntime.api.names import REQUEST_ID
from gpuruntime.api.operation import Operation

__all__ = ["RequestFields", "current_operation_id", "current_request_id", "logged_as", "logged_for"]

current_request_id: ContextVar[str] = ContextVar("gpuruntime_request_id", default="")
"""Id of the request that the running code serves; "" outside of requests."""
current_operation_id: ContextVar[str] = ContextVar("gpuruntime_operation_id", default="")
"""The operationID that the running code works on; "" if there is none."""


class RequestFields(logging.Filter):
    """Adds request_id and operation_id to every log record of a request. Add it to a handler, not to a logger."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, current in (("request_id", current_request_id.get()), ("operation_id", current_operation_id.get())):
            if current and not hasattr(record, name):
                setattr(record, name, current)
        return True


@contextmanager
def logged_as(request_id: str, operation_id: str = "") -> Iterator[None]:
    """Log lines of the block, and of tasks that it starts, carry these ids."""
    request = current_request_id.set(request_id)
    operation = current_operation_id.set(operation_id)
    try:
        yield
    finally:
        current_operation_id.reset(operation)
        current_request_id.reset(request)


@contextmanager
def logged_for(operation: Operation) -> Iterator[None]:
    """Log lines of the block carry the ids of the request that the Operation records, also in another process."""
    with logged_as(operation.metadata.annotations.get(REQUEST_ID, ""), operation.spec.operation_id):
        yield
