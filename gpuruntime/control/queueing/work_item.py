"""What a workqueue knows of one key: the run that is asked for, why, and the run under way."""

from collections.abc import Hashable
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from attrs import frozen

from gpuruntime.control.queueing.revisable_heap import HeapMember

__all__ = ["CAUSES_KEPT", "KeyState", "KeyView", "QueueItem", "WorkItem"]

K = TypeVar("K", bound=Hashable)

CAUSES_KEPT: Final = 16


class KeyState(Enum):
    """Where a key stands in its queue."""

    IDLE = "idle"
    """No run is asked for."""
    WAITING = "waiting"
    """A run is asked for, at a time to come."""
    READY = "ready"
    """A run is asked for, and its time has come."""
    RUNNING = "running"
    """A worker holds the key."""


class WorkItem(NamedTuple, Generic[K]):
    """A key handed to a worker, and how it came to that.

    A tuple, because one is made for every run and a frozen class takes twice as long.
    """

    key: K
    priority: int
    attempt: int
    """1, and 1 more for each failure since the key was last forgotten."""
    waited: float
    """Seconds since the key became ready."""
    causes: tuple[Hashable, ...]
    """The distinct causes given with the adds that this run answers, the first 16 in the order they came."""
    causes_dropped: int
    """How many adds came with a further cause."""


@frozen
class KeyView(Generic[K]):
    """A key on a debug page. Times are in seconds from the moment of the look."""

    key: K
    state: KeyState
    priority: int
    failures: int
    paused: bool
    age: float
    """Since the run that is asked for, or else the one under way, was first asked for; 0 if there is neither."""
    due_in: float | None
    """Until the run that is asked for is due, negative since it is; None if none is asked for."""
    running_for: float | None
    """Since a worker took the key; None if none holds it."""


class QueueItem(HeapMember, Generic[K]):
    """The mutable record of one key.

    `state` is about the run that is asked for, so it is never RUNNING: a key under way may be waiting or ready for its
    next run. Of an idle item `priority` and `asked_at` are those of the run under way.
    """

    __slots__ = (
        "asked_at",
        "causes",
        "causes_dropped",
        "key",
        "paused",
        "priority",
        "ready_at",
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
        self.asked_at = 0.0
        self.ready_at = 0.0
        self.sequence = 0
        self.running_since: float | None = None
        self.causes: dict[Hashable, None] | None = None
        self.causes_dropped = 0

    @property
    def is_present(self) -> bool:
        """Whether there is anything to say of the key: a run asked for or under way, or a pause."""
        return self.state is not KeyState.IDLE or self.running_since is not None or self.paused

    def note(self, cause: Hashable) -> None:
        """Keep a cause of the next run, unless it is known or there are enough."""
        causes = self.causes
        if causes is None:
            self.causes = {cause: None}
        elif len(causes) < CAUSES_KEPT:
            causes[cause] = None
        elif cause not in causes:
            self.causes_dropped += 1

    def take_causes(self) -> tuple[tuple[Hashable, ...], int]:
        """The causes noted since the last time, and how many were dropped."""
        taken = tuple(self.causes or ()), self.causes_dropped
        self.causes, self.causes_dropped = None, 0
        return taken

    def withdraw(self) -> None:
        """Ask for no run after all."""
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
            age=0.0 if state is KeyState.IDLE else now - self.asked_at,
            due_in=None if self.state is KeyState.IDLE else self.ready_at - now,
            running_for=None if running is None else now - running,
        )
