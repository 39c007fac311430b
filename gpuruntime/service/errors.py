"""Why a use case said no. Each class has the code that the REST API answers with; the message is for people.

::

    ServiceError
    ├── InvalidRequestError         the request itself is at fault; all problems at once
    ├── OperationConflictError      the operationID belongs to another request
    ├── NameTakenError              the name belongs to another object
    ├── InsufficientCapacityError   there is no ready stock of the spec
    ├── ObjectNotFoundError         what the request is about is not there
    ├── StaleVersionError           what the request is about is not in the state that it names
    ├── ClaimedError                the stock unit is promised to somebody
    ├── RefusedError                the API server said no
    ├── NamespaceGoneError          a namespace of the product is missing
    ├── NotRunningError             this process does not take requests yet, or any more
    └── NotFinishedError            accepted and stored, not finished yet; ask again

But for the last one, nothing was stored when one of these is raised, or it was taken back: the operationID may be used
again. A request during which a namespace goes may be stored, and carried out when the namespace is back.
What the server and the wire do is a KubeError, and then the Operation may be there and will be finished.
A use case that stored something and cannot go on raises `FailedForGoodError`; that is what the Operation then tells.
"""

from typing import ClassVar

__all__ = [
    "ClaimedError",
    "FailedForGoodError",
    "InsufficientCapacityError",
    "InvalidRequestError",
    "NameTakenError",
    "NamespaceGoneError",
    "NotFinishedError",
    "NotRunningError",
    "ObjectNotFoundError",
    "OperationConflictError",
    "RefusedError",
    "ServiceError",
    "StaleVersionError",
]


class ServiceError(Exception):
    """The base. `code` is one word for programs."""

    code: ClassVar[str]


class InvalidRequestError(ServiceError):
    """The request cannot be carried out by anybody; `problems` are all that is wrong with it."""

    code = "invalid_request"

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class OperationConflictError(ServiceError):
    """The operationID was used for another request."""

    code = "operation_conflict"


class NameTakenError(ServiceError):
    """Another object has the name that was asked for."""

    code = "operation_conflict"


class InsufficientCapacityError(ServiceError):
    """There is no ready stock unit of the spec that nobody has claimed."""

    code = "insufficient_capacity"


class ObjectNotFoundError(ServiceError):
    """What the request is about is not there."""

    code = "not_found"


class StaleVersionError(ServiceError):
    """What the request is about changed since the state that the request names."""

    code = "conflict"


class ClaimedError(ServiceError):
    """The stock unit is promised to an active unit, and goes when that has taken it over; or its job has not ended."""

    code = "stock_claimed"


class RefusedError(ServiceError):
    """The API server refused what the request asks for; its words are in the message."""

    code = "refused"


class NamespaceGoneError(ServiceError):
    """A namespace in which the product works is missing or being deleted: an operator has to create it again."""

    code = "namespace_not_found"


class NotRunningError(ServiceError):
    """This process does not take requests yet, or any more; another one may."""

    code = "service_unavailable"


class NotFinishedError(ServiceError):
    """The request is stored and will be carried out, but was not within the time that the caller had."""

    code = "not_finished"


class FailedForGoodError(Exception):
    """A part of the request was carried out and the rest never will be; the Operation tells why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
