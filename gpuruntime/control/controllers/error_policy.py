"""What to do after a run that failed, by what the failure says about trying again."""

from typing import Literal

from attrs import frozen

from gpuruntime.control.controllers.freshness import StaleCacheError
from gpuruntime.control.controllers.reconcile import TerminalError
from gpuruntime.control.informers.cache_errors import NotSyncedError
from gpuruntime.control.informers.store import QuarantinedError
from gpuruntime.kube.errors import ConflictError, ForbiddenError, InvalidError, KubeError

__all__ = ["Decision", "Verdict", "decide", "is_expected"]

Verdict = Literal["retry", "conflict", "wait", "terminal"]
_FORBIDDEN_SECONDS = 60.0


@frozen
class Decision:
    """`retry`: with backoff. `conflict`: the cache was stale, soon again and no reason to worry. `wait`: not before
    `seconds` have passed. `terminal`: not before something changes.
    """

    verdict: Verdict
    seconds: float = 0.0


def decide(error: BaseException) -> Decision:
    """The rules:

    - 409: somebody else was faster. The next run reads their state.
    - 429, and every other answer with a hint: the server knows best when to come back. One that says "now" is like an
      answer without a hint.
    - 403: permissions change without telling anybody, so look again every minute.
    - 422 and TerminalError: the same object would be refused again; wait for another one.
    - Everything else may be gone by the next try.
    - Of a group, the failure decides that is to be tried again most surely.
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
    """Of several failures at once, the one that is to be tried again most surely decides, and the longest wait."""
    order: tuple[Verdict, ...] = ("terminal", "conflict", "wait", "retry")
    return order.index(decision.verdict), decision.seconds


def is_expected(error: BaseException) -> bool:
    """Whether the error explains itself: its text goes to the log without a traceback."""
    return isinstance(error, KubeError | TerminalError | StaleCacheError | QuarantinedError | NotSyncedError)
