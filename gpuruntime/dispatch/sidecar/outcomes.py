"""How a run ended, before it is sent: a value, and its frame."""

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from gpuruntime.api.invocations import FailureClass, InvocationState
from gpuruntime.dispatch.protocol import FRAME_LIMIT, Run, RunResult, encode_frame
from gpuruntime.meta import EMPTY, FrozenDict

__all__ = ["Outcome", "cancelled", "expired", "failed", "result_frame", "too_large"]

_LONGEST_ERROR: Final = 4096
_CUT: Final = "... (cut)"


@frozen
class Outcome:
    """The end of a run."""

    state: InvocationState
    failure_class: FailureClass | None = None
    error: str = ""
    status_code: int = 0
    content_type: str = ""
    headers: Mapping[str, str] = field(default=EMPTY)
    body: bytes = field(default=b"", repr=False)


def failed(error: str, status_code: int = 0) -> Outcome:
    """The framework failed: `error` is a sentence."""
    return Outcome(InvocationState.FAILED, FailureClass.FRAMEWORK_ERROR, error, status_code)


def expired(seconds: float) -> Outcome:
    """The deadline passed."""
    error = f"the function did not return within {seconds:g} seconds"
    return Outcome(InvocationState.EXPIRED, FailureClass.FRAMEWORK_TIMEOUT, error)


def cancelled(reason: str) -> Outcome:
    """A caller cancelled it."""
    return Outcome(InvocationState.CANCELLED, FailureClass.CANCELLED_BY_CALLER, reason or "cancelled by a caller")


def too_large(limit: int, status_code: int = 0) -> Outcome:
    """The result has more bytes than are allowed."""
    error = f"the result has more than {limit} bytes, which is what the function allows"
    return Outcome(InvocationState.FAILED, FailureClass.RESULT_TOO_LARGE, error, status_code)


def result_frame(run: Run, outcome: Outcome, execution_millis: int) -> tuple[RunResult, bytes]:
    """The frame of an outcome, and its body.

    Guarantees: the frame is within the limits of the run and of the protocol. An activator that refused it would get it
    again for ever.
    """
    if 0 < run.max_result_bytes < len(outcome.body):
        outcome = too_large(run.max_result_bytes, outcome.status_code)
    frame = _frame(run, outcome, execution_millis)
    if len(outcome.body) + _header_bytes(frame) > FRAME_LIMIT:
        outcome = too_large(run.max_result_bytes or FRAME_LIMIT, outcome.status_code)
        frame = _frame(run, outcome, execution_millis)
    return frame, outcome.body


def _frame(run: Run, outcome: Outcome, execution_millis: int) -> RunResult:
    error = outcome.error
    return RunResult(
        lease=run.lease,
        id=run.id,
        attempt=run.attempt,
        state=outcome.state.value,
        failure_class=outcome.failure_class.value if outcome.failure_class else "",
        error=error if len(error) <= _LONGEST_ERROR else error[: _LONGEST_ERROR - len(_CUT)] + _CUT,
        status_code=outcome.status_code,
        content_type=outcome.content_type,
        headers=FrozenDict(outcome.headers),
        execution_millis=execution_millis,
    )


def _header_bytes(frame: RunResult) -> int:
    return len(encode_frame(frame))
