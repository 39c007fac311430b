"""What an error in writing a child means for the unit, and when to retry. Pure.

Only a refusal is a failure of the unit. A server that is down, slow or behind says nothing about the unit: such errors
are raised and retried with backoff, and the status says at most what the unit waits for.
"""

from collections.abc import Callable
from typing import Final

from attrs import frozen

from gpuruntime.api.reasons import FOREIGN_OBJECT
from gpuruntime.control import BeingDeletedError, ForeignObjectError, HotLoopError, StaleOwnerError, WriteRefusedError
from gpuruntime.kube import (
    BadRequestError,
    ForbiddenError,
    InvalidError,
    KubeError,
    ServerError,
    StatusError,
    TooManyRequestsError,
)
from gpuruntime.reconcilers.gpuunit.status import SyncFailure

__all__ = ["REFUSED_SECONDS", "ChildSyncError", "child_sync_error"]

REFUSED_SECONDS: Final = 60.0
"""When to retry what the server refused. Quotas, policies and permissions change without a change of anything that is
watched, and so do objects of other owners."""
_FOREIGN_SECONDS: Final = 30.0


@frozen
class ChildSyncError:
    """What the status says about a child that could not be written, and after how many seconds to retry.

    Without seconds the error is to be raised, so that it is retried with backoff.
    """

    failure: SyncFailure
    seconds: float | None = None


def child_sync_error(
    error: KubeError | WriteRefusedError, child: str, reason: str, *, is_living: Callable[[str, str], bool]
) -> ChildSyncError | None:
    """What an error means for the unit; None if the status says nothing about it and it is only to be raised.

    `child` is the kind of the child, `reason` the condition reason for a child that the server refuses; `is_living`
    says whether a unit exists, by namespace and UID.
    """
    failure, seconds = None, None
    match error:
        case StaleOwnerError() if is_living(error.object.metadata.namespace, error.uid):
            failure, seconds = SyncFailure(str(error), FOREIGN_OBJECT), _FOREIGN_SECONDS
        case ForeignObjectError():
            failure, seconds = SyncFailure(str(error), FOREIGN_OBJECT), _FOREIGN_SECONDS
        case BeingDeletedError() | StaleOwnerError():
            failure, seconds = SyncFailure(f"Waiting for the previous {child} to be gone: {error}"), _FOREIGN_SECONDS
        case WriteRefusedError():
            failure, seconds = SyncFailure(str(error), reason), REFUSED_SECONDS
        case ForbiddenError() | InvalidError() | BadRequestError():
            failure, seconds = SyncFailure(f"The {child} was refused: {_words(error)}", reason), REFUSED_SECONDS
        case HotLoopError():
            failure = SyncFailure(f"Another client keeps changing the {child}: {error}")
        case ServerError() | TooManyRequestsError():
            failure = SyncFailure(f"The API server cannot take the {child} now: {_words(error)}")
    return None if failure is None else ChildSyncError(failure, seconds)


def _words(error: StatusError) -> str:
    return error.message or str(error)
