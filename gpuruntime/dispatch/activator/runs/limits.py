"""What the spec of a function says about its runs, in the units in which runs need it."""

from datetime import timedelta

from attrs import frozen

from gpuruntime.api.gpufunction import FunctionInvocation, GPUFunction
from gpuruntime.api.invocations import FailureClass, QueuedInvocation
from gpuruntime.meta import parse_quantity

__all__ = ["DEFAULT_LIMITS", "RunLimits", "limits_of"]


@frozen
class RunLimits:
    """The limits of a function, read once per change of it."""

    timeout_millis: int
    queue_ttl: timedelta
    result_ttl_millis: int
    dead_letter_seconds: float
    max_attempts: int
    retries_lost: bool
    abort_on_lost_lease: bool
    max_result_bytes: int

    def timeout_of(self, queued: QueuedInvocation) -> int:
        """Milliseconds that a run of the request may take."""
        return queued.timeout_millis or self.timeout_millis

    def queue_ttl_of(self, queued: QueuedInvocation) -> timedelta:
        """How long the request may wait."""
        return timedelta(milliseconds=queued.queue_ttl_millis) if queued.queue_ttl_millis else self.queue_ttl


def limits_of(function: GPUFunction) -> RunLimits:
    """The limits of a function."""
    return _limits(function.spec.invocation)


def _limits(spec: FunctionInvocation) -> RunLimits:
    return RunLimits(
        timeout_millis=spec.timeout_seconds * 1000,
        queue_ttl=timedelta(seconds=spec.queue_ttl_seconds),
        result_ttl_millis=spec.result_ttl_seconds * 1000,
        dead_letter_seconds=float(spec.dead_letter_ttl_seconds),
        max_attempts=spec.max_attempts,
        retries_lost=FailureClass.WORKER_LOST.value in spec.retry_on,
        abort_on_lost_lease=spec.on_lease_lost == "abort",
        max_result_bytes=parse_quantity(spec.max_result_bytes).ceil(),
    )


DEFAULT_LIMITS = _limits(FunctionInvocation())
"""Those of a function that is not known any more: its last runs still end."""
