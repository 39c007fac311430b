"""For how long a container that restarted has to stay up before its unit is Ready again. Pure.

The first start needs no rule here: the Deployment counts `minReadySeconds` itself. A restart does. The kubelet restarts
a container at once the first time, and the pod may stay ready throughout; and a program that ends every few seconds is
ready for a moment each time.

    time to stay up = the longest of
        minReadySeconds
        10 s after the first end, doubled by each further one, at most 1 min    like the back-off of the kubelet
        twice the time that it ran before, at most 5 min                        slow crash loops

A program that lives for any constant time below five minutes is so never called Ready after its first end; one whose
database was away is Ready a minute after it runs. A container that had run for ten minutes is forgiven, as the kubelet
does.
"""

from datetime import datetime
from typing import Final

from gpuruntime.meta import parse_timestamp
from gpuruntime.reconcilers.pod_summary import ContainerSummary, Ending

__all__ = ["ending_of", "ends_in_a_row", "missing_uptime", "required_uptime"]

_FORGIVEN_SECONDS: Final = 600.0
_FIRST_SECONDS: Final = 10.0
_MOST_BY_ENDS: Final = 60.0
_MOST_BY_LIFETIME: Final = 300.0
_DOUBLINGS: Final = 10
# With these reasons, or none, a container that waits has been made anew: its restart is counted.
_STARTING: Final = frozenset({"", "ContainerCreating", "PodInitializing"})


def ending_of(container: ContainerSummary) -> Ending | None:
    """How the container ended the last time."""
    return container.ended or container.ended_before


def ends_in_a_row(container: ContainerSummary) -> int:
    """How often a container has ended; 1 if it had run for ten minutes the last time.

    Guarantees: the number is the same from one end to the next, while the container is terminated, waits and runs.
    """
    ending = ending_of(container)
    if ending is None:
        return 0
    if ending.seconds >= _FORGIVEN_SECONDS:
        return 1
    is_down = container.ended is not None or container.waiting_reason not in _STARTING
    return max(1, container.restarts + (1 if is_down else 0))


def required_uptime(container: ContainerSummary, min_ready_seconds: float) -> float:
    """For how many seconds a container has to stay up after its last end; 0 if it has not ended."""
    ending = ending_of(container)
    if ending is None:
        return 0.0
    if ending.seconds >= _FORGIVEN_SECONDS:
        return min_ready_seconds
    doublings = min(ends_in_a_row(container) - 1, _DOUBLINGS)
    return max(
        min_ready_seconds,
        min(_FIRST_SECONDS * (1 << doublings), _MOST_BY_ENDS),
        min(2 * ending.seconds, _MOST_BY_LIFETIME),
    )


def missing_uptime(container: ContainerSummary, min_ready_seconds: float, now: datetime) -> float:
    """The seconds that a container still has to stay up, 0 if it is up; all of them if it does not run."""
    required = required_uptime(container, min_ready_seconds)
    if not required or not container.started_at:
        return required
    return max(0.0, required - (now - parse_timestamp(container.started_at)).total_seconds())
