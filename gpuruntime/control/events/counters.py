"""What an event recorder counts, for metrics."""

from enum import StrEnum

__all__ = ["DropCause", "EventCounters"]


class DropCause(StrEnum):
    """Why an occurrence is told to nobody."""

    INVALID = "invalid"
    """The server would refuse it: no reason, say. A mistake in the program."""
    BUDGET = "budget"
    """Too many events about one object."""
    QUEUE_FULL = "queue_full"
    """Too many events that wait to be sent: the server is slow, or away."""
    FORGOTTEN = "forgotten"
    """Counted in a series that had to make room for others before it could be told."""
    NOT_LEADER = "not_leader"
    """This replica does not lead, and the recorder sends for the leader alone."""
    STOPPED = "stopped"
    """The recorder has ended, or ended before it could be sent."""


class EventCounters:
    """Plain numbers since the recorder was made.

    `sent` are events that were created, `patched` are updates of events, `failed` are writes that the server refused or
    that were given up. `dropped` are occurrences, by cause.
    """

    __slots__ = ("dropped", "failed", "patched", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.patched = 0
        self.failed = 0
        self.dropped: dict[DropCause, int] = dict.fromkeys(DropCause, 0)
