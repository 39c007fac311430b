"""What follows a failed run, by the type of its error."""

from typing import Literal

from attrs import frozen

from gpuruntime.control.controllers.freshness import StaleCacheError
from gpuruntime.control.controllers.reconcile import TerminalError, UndeclaredError
from gpuruntime.control.informers.cache_errors import NotSyncedError
from gpuruntime.control.informers.store import QuarantinedError
from gpuruntime.kube.errors import ConflictError, ForbiddenError, InvalidError, KubeError

__all__ = ["Decision", "Verdict", "decide", "is_expected"]

Verdict = Literal["retry", "conflict", "wait", "terminal"]
_FORBIDDEN_SECONDS = 60.0


@frozen
class Decision:
    """`retry`: with backoff. `conflict`: the cache was stale; a retry with backoff that is no error. `wait`: not before
    `seconds` have passed. `terminal`: not before something changes.
    """

    verdict: Verdict
    seconds: float = 0.0


def decide(error: BaseException) -> Decision:
    """The rules:

    - 409: another client was faster. The next run reads its state.
    - 429, and every other response with Retry-After: wait as long as the server says; 0 counts as no hint.
    - 403: permissions change without an event, so retry every minute.
    - 422 and TerminalError: the same object would be refused again; wait for a change.
    - Everything else is retried with backoff.
    - In a group, the error with the most urgent decision counts.
    """
    if isinstance(error, BaseExceptionGroup):
        return max((decide(inner) for inner in error.exceptions), key=_urgency)
    if isinstance(error, TerminalError | InvalidError):
        return Decision("terminal")
    if isinstance(error, ConflictError):
        return Decision("conflict")
    if isinstance(error, ForbiddenError):
        return Decision("wait", _FORBIDDEN_SECONDS)
    hint = getattr(error, "retry_after", None) if isinstance(error, KubeError) else None
    if hint:
        return Decision("wait", hint)
    return Decision("retry")


def _urgency(decision: Decision) -> tuple[int, float]:
    """Of several errors, a retry comes before a wait, a conflict and a terminal error, and the longest wait counts."""
    order: tuple[Verdict, ...] = ("terminal", "conflict", "wait", "retry")
    return order.index(decision.verdict), decision.seconds


def is_expected(error: BaseException) -> bool:
    """Whether the error explains itself, so that it is logged without a traceback."""
    if isinstance(error, UndeclaredError):
        return False  # a mistake in the code: the traceback shows where
    return isinstance(error, KubeError | TerminalError | StaleCacheError | QuarantinedError | NotSyncedError)
