"""The states of an invocation, and why one ended without a result.

::

    queued <──> running ──> succeeded | failed | expired | cancelled | dead_lettered

An invocation that ended never changes its state. Who writes which transition is in `gpuruntime.service.invocations`.
"""

from enum import StrEnum

__all__ = ["FailureClass", "InvocationMode", "InvocationState"]


class InvocationMode(StrEnum):
    """Whether the caller waits for the result (sync) or asks for it later (async)."""

    ASYNC = "async"
    SYNC = "sync"


class InvocationState(StrEnum):
    """The state of an invocation."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    """The function returned a result."""
    FAILED = "failed"
    """The function returned an error, or its worker was lost and no attempt is left."""
    EXPIRED = "expired"
    """It waited longer than the queue keeps requests, or ran longer than its timeout."""
    CANCELLED = "cancelled"
    """A caller cancelled it, or its function was deleted."""
    DEAD_LETTERED = "dead_lettered"
    """All attempts were used up, or the message cannot be read. The request is kept."""

    @property
    def is_terminal(self) -> bool:
        """Whether the invocation has ended."""
        return self not in (InvocationState.QUEUED, InvocationState.RUNNING)


class FailureClass(StrEnum):
    """Why an invocation ended without a result."""

    FRAMEWORK_ERROR = "framework_error"
    """The function raised, or answered with a server error, or its process ended."""
    FRAMEWORK_TIMEOUT = "framework_timeout"
    """It ran longer than its timeout."""
    WORKER_LOST = "worker_lost"
    """The worker that ran it is gone, and the function allows no further attempt."""
    RETRY_EXHAUSTED = "retry_exhausted"
    """The last of several attempts was lost or failed."""
    QUEUE_TIMEOUT = "queue_timeout"
    """No worker took it within the time that the queue keeps requests."""
    CANCELLED_BY_CALLER = "cancelled_by_caller"
    FUNCTION_DELETED = "function_deleted"
    MALFORMED_MESSAGE = "malformed_message"
    """The queued message cannot be read: another program wrote it."""
    RESULT_TOO_LARGE = "result_too_large"
    """The result has more bytes than the function allows."""
