"""The items of a work queue: the record of one key, and the work item that a worker gets."""

from collections.abc import Hashable
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from attrs import frozen

from gpuruntime.control.queueing.revisable_heap import HeapMember

__all__ = ["CAUSES_KEPT", "KeyState", "KeyView", "QueueItem", "WorkItem"]

K = TypeVar("K", bound=Hashable)

CAUSES_KEPT: Final = 16
"""The number of distinct causes that are kept for one run."""


class KeyState(Enum):
    """The state of a key in its queue."""

    IDLE = "idle"
    """No run is requested."""
    WAITING = "waiting"
    """A run is requested for a later time."""
    READY = "ready"
    """A run is requested and due."""
    RUNNING = "running"
    """A worker processes the key."""


class WorkItem(NamedTuple, Generic[K]):
    """A key handed to a worker, with the causes of this run.

    A tuple, because one is made for every run and a frozen class takes twice as long.
    """

    key: K
    priority: int
    attempt: int
    """1, plus the failures since the key was last forgotten."""
    waited: float
    """Seconds since the key became ready."""
    causes: tuple[Hashable, ...]
    """The first 16 distinct causes of the adds that led to this run, in order."""
    causes_dropped: int
    """The number of adds whose cause was beyond these 16."""


@frozen
class KeyView(Generic[K]):
    """A key on a debug page. Times are in seconds relative to now."""

    key: K
    state: KeyState
    priority: int
    failures: int
    paused: bool
    age: float
    """Since the requested run, or else the current run, was first requested; 0 if there is neither."""
    due_in: float | None
    """Until the requested run is due, negative if it is overdue; None if no run is requested."""
    running_for: float | None
    """Since a worker took the key; None if it is not running."""


class QueueItem(HeapMember, Generic[K]):
    """The queue's mutable record of one key.

    `state` describes the next run, so it is never RUNNING: a running key may be waiting or ready for its next run. In
    an idle item, `priority` and `requested_at` are those of the current run.
    """

    __slots__ = (
        "causes",
        "causes_dropped",
        "key",
        "paused",
        "priority",
        "ready_at",
        "requested_at",
        "running_since",
        "sequence",
        "state",
    )

    def __init__(self, key: K, paused: bool) -> None:
        self.entry = None
        self.key = key
        self.paused = paused
        self.state = KeyState.IDLE
        self.priority = 0
        self.requested_at = 0.0
        self.ready_at = 0.0
        self.sequence = 0
        self.running_since: float | None = None
        self.causes: dict[Hashable, None] | None = None
        self.causes_dropped = 0

    @property
    def is_present(self) -> bool:
        """Whether the key is queued, running or paused."""
        return self.state is not KeyState.IDLE or self.running_since is not None or self.paused

    def add_cause(self, cause: Hashable) -> None:
        """Keep a cause of the next run, unless it is known or the limit is reached."""
        causes = self.causes
        if causes is None:
            self.causes = {cause: None}
        elif len(causes) < CAUSES_KEPT:
            causes[cause] = None
        elif cause not in causes:
            self.causes_dropped += 1

    def take_causes(self) -> tuple[tuple[Hashable, ...], int]:
        """Return and reset the causes, and the number of dropped ones."""
        taken = tuple(self.causes or ()), self.causes_dropped
        self.causes, self.causes_dropped = None, 0
        return taken

    def withdraw(self) -> None:
        """Drop the requested run."""
        self.state = KeyState.IDLE
        self.take_causes()

    def view(self, now: float, failures: int) -> KeyView[K]:
        running = self.running_since
        state = self.state if running is None else KeyState.RUNNING
        return KeyView(
            key=self.key,
            state=state,
            priority=self.priority,
            failures=failures,
            paused=self.paused,
            age=0.0 if state is KeyState.IDLE else now - self.requested_at,
            due_in=None if self.state is KeyState.IDLE else self.ready_at - now,
            running_for=None if running is None else now - running,
        )
