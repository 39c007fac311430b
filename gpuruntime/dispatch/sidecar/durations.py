"""The durations that a sidecar waits, in seconds. Tests shorten them."""

from typing import Final

from attrs import field, frozen

from gpuruntime.aio import BackoffSchedule

__all__ = ["Durations"]

_RECONNECT: Final = BackoffSchedule(base=0.05, factor=2, cap=5, reset=10)
_REFUSED: Final = BackoffSchedule(base=1, factor=2, cap=30, reset=60)


@frozen
class Durations:
    """How long a sidecar waits, and how often it asks."""

    cancel_grace: float = 10
    """How long a cancelled run may take to end. After that the framework is stuck."""
    lease: float = 15
    """After how long without a confirmation a lease counts as lost, for runs that must not overlap."""
    not_started: float = 1
    """How long a run that the framework refused keeps its slot before it goes back to the queue. Without it, one
    invocation could go back and forth without a pause."""
    health_absent: float = 0.1
    """Pause between looks for the socket of a framework that has not made it yet."""
    health_unhealthy: float = 0.5
    """Pause between health checks of a framework that is not healthy."""
    health_healthy: float = 2
    """Pause between health checks of a framework that is healthy."""
    health_timeout: float = 5
    """How long a framework may take to answer a health check."""
    connect: float = 10
    """How long a connection to the activator may take, and the answer to Hello."""
    ping: float = 10
    """Pause between pings of the activator; one that is not answered within half of it ends the connection."""
    close: float = 2
    """How long the last frames may take at the end of a connection."""
    reconnect: BackoffSchedule = field(default=_RECONNECT)
    refused: BackoffSchedule = field(default=_REFUSED)
    """Delays after 401 and 403: neither a token nor a pod becomes valid at once."""
