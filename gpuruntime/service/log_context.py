"""Which request a log line belongs to, in every process that does something for it.

A request has an id of its own and, if it writes, an operationID. The Operation keeps both, so that whoever works on it,
perhaps in another process, logs under the same names.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gpuruntime.api.names import REQUEST_ID
from gpuruntime.api.operation import Operation

__all__ = ["RequestFields", "current_operation_id", "current_request_id", "logged_as", "logged_for"]

current_request_id: ContextVar[str] = ContextVar("gpuruntime_request_id", default="")
"""The request that the running code serves; "" if it serves none."""
current_operation_id: ContextVar[str] = ContextVar("gpuruntime_operation_id", default="")
"""The operationID of what the running code does; "" if that has none."""


class RequestFields(logging.Filter):
    """Adds request_id and operation_id to every line that anybody logs for a request. Put it on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, current in (("request_id", current_request_id.get()), ("operation_id", current_operation_id.get())):
            if current and not hasattr(record, name):
                setattr(record, name, current)
        return True


@contextmanager
def logged_as(request_id: str, operation_id: str = "") -> Iterator[None]:
    """What is logged in the block, and by tasks that are started in it, is logged under these names."""
    request = current_request_id.set(request_id)
    operation = current_operation_id.set(operation_id)
    try:
        yield
    finally:
        current_operation_id.reset(operation)
        current_request_id.reset(request)


@contextmanager
def logged_for(operation: Operation) -> Iterator[None]:
    """The same, under the names of the request that an Operation was made for, whichever process took that."""
    with logged_as(operation.metadata.annotations.get(REQUEST_ID, ""), operation.spec.operation_id):
        yield
