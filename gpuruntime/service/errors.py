"""Errors of use cases. Each class has the code that the REST API returns; the message is for people.

::

    ServiceError
    ├── InvalidRequestError         the request is invalid; lists every violation
    ├── OperationConflictError      the operationID was used for another request
    ├── NameTakenError              another object has the name
    ├── InsufficientCapacityError   no ready stock unit of the spec is free
    ├── ObjectNotFoundError         the object of the request does not exist
    ├── StaleVersionError           the object is not at the resourceVersion that the request names
    ├── StockClaimedError           the stock unit is claimed, or its seed operation has not ended
    ├── StorageInUseError           a unit or a copy has the storage
    ├── NotRecoverableError         the preparation of the storage has not failed
    ├── RefusedError                the API server rejected the write
    ├── NamespaceGoneError          a namespace of the product is missing
    ├── FunctionDeletingError       the function is being deleted, and takes no more invocations
    ├── InvocationConflictError     the ID of the invocation was used for another request
    ├── InvocationEndedError        the invocation has ended, so it cannot be cancelled
    ├── ResultExpiredError          the result was kept for its time, and is gone
    ├── PayloadTooLargeError        the payload is larger than the function allows
    ├── QueueLimitError             the queue of the function is full
    ├── QueueUnavailableError       NATS is not configured or does not answer, or the queue is not there yet
    ├── ResultStorageFullError      there is no room for further results
    ├── ArchiveUnavailableError     the result-store is not configured or does not answer
    ├── NotRunningError             this process does not accept requests yet, or any more
    └── NotFinishedError            accepted and stored, not finished yet; retry with the same operationID

After every error but NotFinishedError nothing is stored, or what was stored has been deleted: the operationID is free.
One exception: a request during which a namespace is deleted may be stored, and is executed when the namespace is back.
Errors of the API server and of the connection are KubeErrors. After one of those the Operation may be stored, and will
be finished. A use case that stored something and cannot continue raises `OperationFailedError`, which ends the
Operation as failed.
"""

from typing import ClassVar, Final

from gpuruntime.schema import Violation

__all__ = [
    "UNREADABLE_REQUEST",
    "ArchiveUnavailableError",
    "FunctionDeletingError",
    "InsufficientCapacityError",
    "InvalidRequestError",
    "InvocationConflictError",
    "InvocationEndedError",
    "NameTakenError",
    "NamespaceGoneError",
    "NotFinishedError",
    "NotRecoverableError",
    "NotRunningError",
    "ObjectNotFoundError",
    "OperationConflictError",
    "OperationFailedError",
    "PayloadTooLargeError",
    "QueueLimitError",
    "QueueUnavailableError",
    "RefusedError",
    "ResultExpiredError",
    "ResultStorageFullError",
    "ServiceError",
    "StaleVersionError",
    "StockClaimedError",
    "StorageInUseError",
]

UNREADABLE_REQUEST: Final = "unreadable_request"
"""Code of an Operation that failed because its stored request cannot be decoded."""


class ServiceError(Exception):
    """Base class. `code` is one word for programs; `retry_after` are the seconds after which to try again, if known."""

    code: ClassVar[str]
    retry_after: float | None = None


class InvalidRequestError(ServiceError):
    """The request is invalid; `violations` lists every rule that it violates."""

    code = "invalid_request"

    def __init__(self, violations: tuple[Violation, ...]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = violations


class OperationConflictError(ServiceError):
    """The operationID was used for another request."""

    code = "operation_conflict"


class NameTakenError(ServiceError):
    """Another object has the requested name."""

    code = "operation_conflict"


class InsufficientCapacityError(ServiceError):
    """No stock unit of the spec is ready and unclaimed."""

    code = "insufficient_capacity"


class ObjectNotFoundError(ServiceError):
    """The object of the request does not exist."""

    code = "not_found"


class StaleVersionError(ServiceError):
    """The object changed since the resourceVersion that the request names."""

    code = "conflict"


class StockClaimedError(ServiceError):
    """The stock unit is claimed for an active unit, or the operation that seeds it has not ended."""

    code = "stock_claimed"


class StorageInUseError(ServiceError):
    """The storage is mounted by a unit, or being copied; the message names the holder."""

    code = "storage_in_use"


class NotRecoverableError(ServiceError):
    """The preparation of the storage has not failed, so it is not repeated."""

    code = "not_recoverable"


class RefusedError(ServiceError):
    """The API server rejected the write; the message quotes it."""

    code = "refused"


class NamespaceGoneError(ServiceError):
    """A namespace of the product is missing or being deleted; a cluster administrator has to create it again."""

    code = "namespace_not_found"


class FunctionDeletingError(ServiceError):
    """The function is being deleted, and takes no more invocations."""

    code = "function_deleting"


class InvocationConflictError(ServiceError):
    """The ID was used for another request to the same function."""

    code = "invocation_conflict"


class InvocationEndedError(ServiceError):
    """The invocation has ended otherwise, so it cannot be cancelled."""

    code = "invocation_ended"


class ResultExpiredError(ServiceError):
    """The result was kept for as long as the function says, and is gone."""

    code = "result_expired"


class PayloadTooLargeError(ServiceError):
    """The payload is larger than the function allows."""

    code = "request_too_large"


class QueueLimitError(ServiceError):
    """The queue of the function has its maximum of invocations or bytes."""

    code = "queue_full"

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueUnavailableError(ServiceError):
    """NATS is not configured, does not answer, or has no queue for the function yet.

    A request that was under way may have been accepted: sent again with the same ID, it is accepted once.
    """

    code = "queue_unavailable"


class ResultStorageFullError(ServiceError):
    """There is no room for the results of further invocations."""

    code = "storage_full"


class ArchiveUnavailableError(ServiceError):
    """The result-store, which lists invocations, is not configured or does not answer."""

    code = "archive_unavailable"


class NotRunningError(ServiceError):
    """This process does not accept requests yet, or any more; another replica may."""

    code = "service_unavailable"


class NotFinishedError(ServiceError):
    """The request is stored and will be executed, but was not within the time that the caller waited."""

    code = "not_finished"


class OperationFailedError(Exception):
    """A part of the request was executed and the rest never will be. Ends the Operation as failed, with this code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
