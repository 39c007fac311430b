"""What it means for a unit that one of its children could not be written, and when to try again. Pure.

Only a refusal is a failure of the unit. A server that is down, slow or behind says nothing about the unit: such errors
are raised, tried again with backoff, and at most told as what the unit waits for.
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
from gpuruntime.reconcilers.unit_status import Hindrance

__all__ = ["REFUSED_SECONDS", "Obstacle", "obstacle"]

REFUSED_SECONDS: Final = 60.0
"""When to try again what the server refused. Quotas, policies and permissions change without a change of anything that
is watched, and so do objects of others."""
_FOREIGN_SECONDS: Final = 30.0


@frozen
class Obstacle:
    """What to tell about a child that could not be written, and after how many seconds to look again.

    None for the seconds: raise the error, so that it is tried again with backoff.
    """

    hindrance: Hindrance
    seconds: float | None = None


def obstacle(
    error: KubeError | WriteRefusedError, child: str, reason: str, *, is_living: Callable[[str, str], bool]
) -> Obstacle | None:
    """What the error stands for; None if there is nothing to tell, and it is only to be raised.

    `child` is the kind of the child, `reason` that of a child which the server refuses; `is_living` says whether a unit
    lives, by namespace and UID.
    """
    hindrance, seconds = None, None
    match error:
        case StaleOwnerError() if is_living(error.object.metadata.namespace, error.uid):
            hindrance, seconds = Hindrance(str(error), FOREIGN_OBJECT), _FOREIGN_SECONDS
        case ForeignObjectError():
            hindrance, seconds = Hindrance(str(error), FOREIGN_OBJECT), _FOREIGN_SECONDS
        case BeingDeletedError() | StaleOwnerError():
            hindrance, seconds = Hindrance(f"Waiting for the previous {child} to be gone: {error}"), _FOREIGN_SECONDS
        case WriteRefusedError():
            hindrance, seconds = Hindrance(str(error), reason), REFUSED_SECONDS
        case ForbiddenError() | InvalidError() | BadRequestError():
            hindrance, seconds = Hindrance(f"The {child} was refused: {_words(error)}", reason), REFUSED_SECONDS
        case HotLoopError():
            hindrance = Hindrance(f"Somebody else keeps changing the {child}: {error}")
        case ServerError() | TooManyRequestsError():
            hindrance = Hindrance(f"The API server cannot take the {child} now: {_words(error)}")
    return None if hindrance is None else Obstacle(hindrance, seconds)


def _words(error: StatusError) -> str:
    return error.message or str(error)
