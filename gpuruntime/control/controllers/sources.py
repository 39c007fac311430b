"""Where the keys of a controller come from: watched kinds, the program itself, the clock."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from attrs import field, frozen
from attrs.validators import gt

from gpuruntime.control.controllers.predicates import Predicate
from gpuruntime.control.controllers.reconcile import Cause
from gpuruntime.control.controllers.triggers import Trigger
from gpuruntime.control.controllers.usage import check_takes_change
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.queueing.priorities import LOW
from gpuruntime.control.queueing.workqueue import WorkQueue

__all__ = ["Channel", "Source", "Timer", "Watch"]

_LOG = logging.getLogger(__name__)
K = TypeVar("K")
T = TypeVar("T")


class Source(Protocol[K]):
    """Feeds a queue."""

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """What must be complete before the first reconcile."""

    async def prepare(self, queue: WorkQueue[K]) -> None:
        """Begin to feed the queue."""

    async def run(self, queue: WorkQueue[K]) -> None:
        """Do whatever takes time, until cancelled."""

    def close(self) -> None:
        """Feed no more."""


class Watch(Generic[K, T]):
    """Changes of a kind that pass all predicates, turned into keys by a trigger.

    Keys of objects that were there from the start have low priority: what changes now comes before what merely has to
    be looked at once.
    """

    def __init__(self, informer: Informer[T], trigger: Trigger[K], predicates: Sequence[Predicate] = ()) -> None:
        check_takes_change([trigger], "trigger")
        check_takes_change(predicates, "predicate")
        self._informer = informer
        self._trigger = trigger
        self._predicates = tuple(predicates)
        self._name = str(informer.scope.storage.kind)
        self._handler: Callable[[Change[T]], None] | None = None

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._informer,)

    async def prepare(self, queue: WorkQueue[K]) -> None:
        now = asyncio.get_running_loop().time

        def handle(change: Change[T]) -> None:
            if all(predicate(change) for predicate in self._predicates):
                cause = Cause(self._name, change.type, str(change.key), now())
                for key in self._trigger(change):
                    queue.add(key, priority=LOW if change.initial else 0, cause=cause)

        await self._informer.subscribe(handle)
        # Not before: one that is cancelled while it joins has not joined, and there is nothing to leave.
        self._handler = handle

    async def run(self, queue: WorkQueue[K]) -> None:
        """There is nothing to do: the informer is run by its cache."""

    def close(self) -> None:
        if self._handler is not None:
            self._informer.unsubscribe(self._handler)
            self._handler = None


class Channel(Generic[K]):
    """Keys that the program sends.

    What is sent before the controller starts, or after it has stopped, is kept for its next start. What was sent while
    it ran, and had no run when it stopped, is lost.
    """

    def __init__(self, name: str = "channel") -> None:
        self._name = name
        self._queue: WorkQueue[K] | None = None
        self._early: dict[K, tuple[int, str]] = {}

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return ()

    def send(self, key: K, *, priority: int = 0, why: str = "sent") -> None:
        """Ask for a run of `key`."""
        if self._queue is None:
            known = self._early.get(key)
            self._early[key] = (priority if known is None else max(priority, known[0]), why)
        else:
            now = asyncio.get_running_loop().time()
            self._queue.add(key, priority=priority, cause=Cause(self._name, why, at=now))

    async def prepare(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        early, self._early = self._early, {}
        for key, (priority, why) in early.items():
            self.send(key, priority=priority, why=why)

    async def run(self, queue: WorkQueue[K]) -> None:
        """There is nothing to do: the program sends."""

    def close(self) -> None:
        self._queue = None


@frozen
class Timer(Generic[K]):
    """All keys that `keys` gives, every so many seconds, at low priority: for what no watch can tell.

    If `keys` raises, that is reported in the log, and it is called again when the next time comes.
    """

    seconds: float = field(validator=gt(0))
    keys: Callable[[], Iterable[K]]
    name: str = "timer"
    informers: Sequence[Informer[Any]] = field(default=())

    async def prepare(self, queue: WorkQueue[K]) -> None:
        """The first time comes after `seconds`."""

    async def run(self, queue: WorkQueue[K]) -> None:
        while True:
            await asyncio.sleep(self.seconds)
            cause = Cause(self.name, "tick", at=asyncio.get_running_loop().time())
            try:
                for key in self.keys():
                    queue.add(key, priority=LOW, cause=cause)
            except Exception:  # noqa: BLE001 - other people's code must not stop the controller
                _LOG.exception("a timer's keys cannot be told", extra={"source": self.name})

    def close(self) -> None:
        """The task that runs it is cancelled."""
