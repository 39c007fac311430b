"""Sources of keys: watches of a kind, keys that the program sends, timers."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from attrs import field, frozen

from gpuruntime.control.controllers.keys import checked_keys
from gpuruntime.control.controllers.predicates import Predicate
from gpuruntime.control.controllers.reconcile import Cause
from gpuruntime.control.controllers.triggers import Trigger
from gpuruntime.control.controllers.usage import check_takes_change
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.informer import Informer
from gpuruntime.control.informers.subscription import Subscription
from gpuruntime.control.option_checks import above_zero
from gpuruntime.control.queueing.priorities import LOW_PRIORITY
from gpuruntime.control.queueing.workqueue import WorkQueue

__all__ = ["Channel", "Source", "Timer", "Watch"]

_LOG = logging.getLogger(__name__)
_FIRST_RETRY_SECONDS = 0.1
K = TypeVar("K")
T = TypeVar("T")


class Source(Protocol[K]):
    """Enqueues keys."""

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        """The informers that must be synced before the first reconcile."""

    async def prepare(self, queue: WorkQueue[K]) -> None:
        """Begin to enqueue."""

    async def run(self, queue: WorkQueue[K]) -> None:
        """Enqueue over time, until cancelled."""

    def close(self) -> None:
        """Stop enqueueing."""


class Watch(Generic[K, T]):
    """Enqueues the keys that a trigger returns for changes of a kind that pass all predicates.

    Keys of objects in the initial list have low priority: changes come before the first look at everything.

    Guarantees:
        A change on which the trigger or a predicate raises, or for which the trigger returns what is no key, is retried
        with backoff, in the order of the object's changes, until it is mapped to keys or the controller stops.
    """

    def __init__(self, informer: Informer[T], trigger: Trigger[K], predicates: Sequence[Predicate] = ()) -> None:
        check_takes_change([trigger], "trigger")
        check_takes_change(predicates, "predicate")
        self._informer = informer
        self._trigger = trigger
        self._predicates = tuple(predicates)
        self._name = str(informer.scope.storage.kind)
        self._handler: Callable[[Change[T]], None] | None = None
        self._subscription: Subscription[T] | None = None
        self._past_failures = 0

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return (self._informer,)

    @property
    def is_feeding(self) -> bool:
        """Whether a running controller uses it."""
        return self._handler is not None

    @property
    def failures(self) -> int:
        """Number of times that the trigger or a predicate raised."""
        return self._past_failures + (0 if self._subscription is None else self._subscription.failures)

    @property
    def retrying(self) -> int:
        """Number of objects with a change that is retried."""
        return 0 if self._subscription is None else self._subscription.retrying

    async def prepare(self, queue: WorkQueue[K]) -> None:
        now = asyncio.get_running_loop().time

        def handle(change: Change[T]) -> None:
            if all(predicate(change) for predicate in self._predicates):
                cause = Cause(self._name, change.type, str(change.key), now())
                for key in checked_keys(self._trigger(change), self._trigger, queue.key_type):
                    queue.add(key, priority=LOW_PRIORITY if change.initial else 0, cause=cause)

        name = f"the trigger or a predicate of controller {queue.name}"
        self._subscription = await self._informer.subscribe(handle, name=name)
        # Not before: a subscription that is cancelled while it joins has nothing to leave.
        self._handler = handle

    async def run(self, queue: WorkQueue[K]) -> None:
        """Does nothing: the cache runs the informer."""

    def close(self) -> None:
        if self._handler is not None:
            self._past_failures = self.failures
            self._informer.unsubscribe(self._handler)
            self._handler = self._subscription = None


class Channel(Generic[K]):
    """Enqueues keys that the program sends.

    Keys that are sent before the controller starts, or after it has stopped, are kept for its next start. Keys that
    were sent while it ran, and had no run when it stopped, are lost.
    """

    def __init__(self, name: str = "channel") -> None:
        self._name = name
        self._queue: WorkQueue[K] | None = None
        self._early: dict[K, tuple[int, str]] = {}

    @property
    def informers(self) -> Sequence[Informer[Any]]:
        return ()

    @property
    def is_feeding(self) -> bool:
        """Whether a running controller uses it."""
        return self._queue is not None

    def send(self, key: K, *, priority: int = 0, why: str = "sent") -> None:
        """Enqueue `key`.

        Raises:
            TypeError: no key of the controller. One that is sent before the controller starts is refused at its start.
        """
        if self._queue is None:
            known = self._early.get(key)
            self._early[key] = (priority if known is None else max(priority, known[0]), why)
        else:
            (checked,) = checked_keys([key], self.send, self._queue.key_type)
            now = asyncio.get_running_loop().time()
            self._queue.add(checked, priority=priority, cause=Cause(self._name, why, at=now))

    async def prepare(self, queue: WorkQueue[K]) -> None:
        self._queue = queue
        early, self._early = self._early, {}
        for key, (priority, why) in early.items():
            self.send(key, priority=priority, why=why)

    async def run(self, queue: WorkQueue[K]) -> None:
        """Does nothing: the program sends."""

    def close(self) -> None:
        self._queue = None


class _Misses:
    """Failures of the keys of a timer: in all, in a row, and the last error."""

    def __init__(self) -> None:
        self.total = 0
        self.in_a_row = 0
        self.error = ""


@frozen
class Timer(Generic[K]):
    """Enqueues all keys that `keys` returns, each time `seconds` have passed, at low priority: for what no watch
    reports.

    If `keys` raises, or returns no iterable of keys, it is retried with backoff, and at the latest at the next tick.
    """

    seconds: float = field(validator=above_zero)
    keys: Callable[[], Iterable[K]]
    name: str = "timer"
    informers: Sequence[Informer[Any]] = field(default=())
    _misses: _Misses = field(factory=_Misses, init=False, repr=False, eq=False)

    @property
    def failures(self) -> int:
        """Number of times that `keys` raised."""
        return self._misses.total

    @property
    def retrying(self) -> int:
        """1 while `keys` is retried, else 0."""
        return 1 if self._misses.in_a_row else 0

    @property
    def trouble(self) -> str:
        """The last error of `keys` while it is retried, else empty."""
        return f"the keys of {self.name} fail ({self._misses.error})" if self._misses.in_a_row else ""

    async def prepare(self, queue: WorkQueue[K]) -> None:
        """Does nothing: the first tick comes after `seconds`."""

    async def run(self, queue: WorkQueue[K]) -> None:
        misses = self._misses
        misses.in_a_row = 0
        while True:
            again = _FIRST_RETRY_SECONDS * 2.0 ** min(misses.in_a_row - 1, 32)
            await asyncio.sleep(min(self.seconds, again) if misses.in_a_row else self.seconds)
            cause = Cause(self.name, "tick", at=asyncio.get_running_loop().time())
            try:
                for key in checked_keys(self.keys(), self.keys, queue.key_type):
                    queue.add(key, priority=LOW_PRIORITY, cause=cause)
            except BaseException as error:
                # User code must not stop the controller, and a plain function is never cancelled.
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                misses.total += 1
                misses.in_a_row += 1
                misses.error = f"{type(error).__name__}: {error}"
                _LOG.exception("keys of a timer failed, will retry", extra={"source": self.name})
            else:
                misses.in_a_row = 0

    def close(self) -> None:
        """Does nothing: the task that runs it is cancelled."""
