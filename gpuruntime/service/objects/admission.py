"""What the API server refuses: the request of a caller, or us.

A quota, a policy or a rule of the kind is about what somebody asked for, and asking again is of no use. That our own
account may not do it is nobody's request's fault. It is wrong for as long as a server that has just started does not
know its roles yet; or else somebody has to mend the roles, and then it can be done.
"""

import re
from typing import Final

from gpuruntime.kube import BadRequestError, ForbiddenError, InvalidError, KubeError, StatusError, UnavailableError
from gpuruntime.service.errors import RefusedError

__all__ = ["REFUSALS", "ensure_allowed", "is_denied", "refused"]

REFUSALS: Final = (BadRequestError, ForbiddenError, InvalidError)
"""How the API server says no for good."""

_DENIED: Final = re.compile(r'User "[^"]*" cannot \w+ resource')


def is_denied(error: KubeError) -> bool:
    """Whether the server said no because of who we are."""
    return isinstance(error, StatusError) and error.code == 403 and _DENIED.search(error.message) is not None


def ensure_allowed(error: StatusError) -> None:
    """Pass if the server's no is about the request.

    Raises:
        UnavailableError: it is about us: not now.
    """
    if is_denied(error):
        raise UnavailableError(f"this process may not do it (yet): {error}") from error


def refused(what: str, error: StatusError) -> RefusedError:
    """The refusal of something that was asked for.

    Raises:
        UnavailableError: see `ensure_allowed`.
    """
    ensure_allowed(error)
    return RefusedError(f"{what} was refused: {error}")
