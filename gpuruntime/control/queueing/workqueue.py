"""The work queue between event sources and the workers that reconcile."""

import asyncio
import math
import random
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from gpuruntime.aio.loops import require_loop
from gpuruntime.control.queueing.counters import QueueCounters
from gpuruntime.control.queueing.delayed_items import DelayedItems
from gpuruntime.control.queueing.idle_workers import IdleWorkers
from gpuruntime.control.queueing.key_sample import KeySample, first_items
from gpuruntime.control.queueing.priorities import rank
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.control.queueing.revisable_heap import RevisableHeap
from gpuruntime.control.queueing.work_item import KeyState, KeyView, QueueItem, WorkItem

__all__ = ["QueueClosedError", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

_CLIENT_GO_LIMITS: Final = RateLimiter()
# Looking up a member of an enum costs more than comparing it.
_IDLE: Final = KeyState.IDLE
_WAITING: Final = KeyState.WAITING
_READY: Final = KeyState.READY


class QueueClosedError(Exception):
    """The queue is closed and returns no more keys."""


class WorkQueue(Generic[K]):
    """A deduplicating priority queue of keys with delayed and rate-limited adds, as in client-go.

    Flow:
        A worker awaits `get`, processes the key, calls `forget` or `add_rate_limited`, and always ends with `done`.

    Guarantees:
        At most one worker processes a key at a time. Adding a queued key changes nothing, except that the higher
        priority and the earlier time win. Adds of a running key lead to exactly one more run after `done`, with the
        highest priority and the earliest time requested. No add is lost.

        Keys are served in the order of `priorities.rank`: equal priorities in the order in which they became ready, and
        each within a bounded time. A delayed key becomes ready when its delay has passed. A key keeps its age when its
        priority is raised, while its own run holds it back, and while it is paused.

        Cancelling `get` loses no key. An add wakes at most one worker, and only if there is a key for it.

    Assumptions:
        All calls come from the thread of the loop that was running when the queue was made. Time is the loop's time.

    Caveats:
        `get` does not yield to the loop while keys are ready: a worker that never awaits must yield by itself.
    """

    def __init__(
        self,
        name: str,
        *,
        rate_limiter: RateLimiter = _CLIENT_GO_LIMITS,
        chance: Callable[[], float] = random.random,
        key_type: type | None = None,
    ) -> None:
        """Create a queue in a running loop. Sources check the keys that they add against `key_type`."""
        loop = require_loop(f"workqueue {name!r}")
        self.name = name
        self.key_type = key_type
        self.counters = QueueCounters()
        self._rate_limiter = rate_limiter
        self._chance = chance
        self._now = loop.time
        self._items: dict[K, QueueItem[K]] = {}
        self._failures: dict[K, int] = {}
        self._paused: set[K] = set()
        self._running: set[QueueItem[K]] = set()
        # Only keys that `get` may return now: ready, not running, not paused.
        self._ready: RevisableHeap[QueueItem[K]] = RevisableHeap()
        self._delayed: DelayedItems[K] = DelayedItems(loop, self._make_ready)
        self._sequence = 0
        # While there are idle workers, each item in `_ready` has a woken worker of its own.
        self._idle = IdleWorkers(loop)
        self._closed = False
        self._drained = asyncio.Event()

    def __len__(self) -> int:
        """The number of keys with a requested run, due or delayed."""
        return self.counters.total_depth() + len(self._delayed)

    def add(self, key: K, *, priority: int = 0, cause: Hashable | None = None) -> None:
        """Request a run now, even if the key waits for a later time."""
        if self._closed:
            return
        item = self._items.get(key) or self._admit(key)
        if cause is not None:
            item.add_cause(cause)
        state = item.state
        if state is _IDLE:
            item.priority = priority
            self._make_ready(item)
            item.requested_at = item.ready_at
            return
        if priority > item.priority:
            self._raise_priority(item, priority)
        if state is _WAITING:
            self._delayed.discard(item)
            self._make_ready(item)

    def add_after(self, key: K, seconds: float, *, priority: int = 0, cause: Hashable | None = None) -> None:
        """Request a run after a delay; without a positive delay, now.

        Raises:
            ValueError: the delay is not a finite number.
        """
        if not math.isfinite(seconds):
            raise ValueError(f"workqueue {self.name!r} cannot delay {key!r}: expected finite seconds, got {seconds}")
        if seconds <= 0:
            self.add(key, priority=priority, cause=cause)
            return
        if self._closed:
            return
        self.counters.retries += 1
        item = self._items.get(key) or self._admit(key)
        if cause is not None:
            item.add_cause(cause)
        now = self._now()
        if item.state is _IDLE:
            item.state = _WAITING
            item.priority = priority
            item.requested_at = now
            item.ready_at = now + seconds
            self._delayed.add(item)
            return
        if priority > item.priority:
            self._raise_priority(item, priority)
        if item.state is _WAITING and now + seconds < item.ready_at:
            self._delayed.discard(item)
            item.ready_at = now + seconds
            self._delayed.add(item)

    def add_rate_limited(self, key: K, *, priority: int = 0, cause: Hashable | None = None) -> None:
        """Count a failure of a key and request a run after its backoff."""
        if self._closed:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, self._rate_limiter.delay(failures, self._chance()), priority=priority, cause=cause)

    def forget(self, key: K) -> None:
        """Reset the failures of a key. Requested runs stay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """The number of failures of a key since it was last forgotten."""
        return self._failures.get(key, 0)

    def pause(self, key: K) -> None:
        """Hold a key back until it is resumed. Requested runs are kept; a current run continues."""
        self._paused.add(key)
        item = self._items.get(key)
        if item is not None and not item.paused:
            item.paused = True
            if item.state is _READY and item.running_since is None:
                self._ready.discard(item)

    def resume(self, key: K) -> None:
        """End a pause. The key takes the position that it would have had without the pause."""
        self._paused.discard(key)
        item = self._items.get(key)
        if item is not None and item.paused:
            item.paused = False
            if item.state is _READY and item.running_since is None:
                self._offer(item)

    async def get(self) -> K:
        """The next key; no other worker gets it until `done`.

        Raises:
            QueueClosedError: the queue is closed, or was closed during the wait.
        """
        if self._closed or self._ready.size <= self._idle.woken:
            await self._until_ready()
        item = self._take(self._now())
        if item.causes is not None:
            item.take_causes()
        return item.key

    async def get_with_causes(self) -> WorkItem[K]:
        """The next key as from `get`, with its priority, attempt and causes.

        Raises:
            QueueClosedError: the queue is closed, or was closed during the wait.
        """
        if self._closed or self._ready.size <= self._idle.woken:
            await self._until_ready()
        now = self._now()
        item = self._take(now)
        causes, dropped = item.take_causes()
        attempt = self._failures.get(item.key, 0) + 1
        return WorkItem(item.key, item.priority, attempt, now - item.ready_at, causes, dropped)

    def done(self, key: K) -> None:
        """Mark the run of a key as finished. Call it once for each `get`, even after `close`.

        Raises:
            ValueError: the key is not running.
        """
        item = self._items.get(key)
        if item is None or item.running_since is None:
            raise ValueError(f"{key!r} of workqueue {self.name!r} is not running: call done once for each get")
        self.counters.worked.observe(self._now() - item.running_since)
        item.running_since = None
        self._running.remove(item)
        if item.state is _IDLE:
            del self._items[key]
        elif item.state is _READY and not item.paused:
            self._offer(item)
        if self._closed and not self._running:
            self._drained.set()

    def close(self) -> None:
        """Close the queue: idle workers get `QueueClosedError`, and later adds are silently dropped.

        Caveats:
            Queued keys are dropped. Reconciling is level-triggered: the next process finds the same work again.
        """
        self._closed = True
        self._ready.clear()
        self._delayed.clear()
        for item in self._items.values():
            if item.state is _READY:
                self.counters.count_depth(item.priority, -1)
            item.withdraw()
        self._items = {item.key: item for item in self._running}
        self._idle.wake_all()
        if not self._running:
            self._drained.set()

    async def drain(self, timeout: float) -> tuple[K, ...]:  # noqa: ASYNC109 - it returns what is left at the timeout
        """Close the queue and wait up to `timeout` seconds until every worker has called `done`.

        Returns:
            The keys that are still running: none if all workers finished in time.
        """
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._drained.wait()
        return tuple(item.key for item in self._running)

    def snapshot(self) -> tuple[KeyView[K], ...]:
        """Every queued, running or paused key, in no particular order."""
        return self._views(self._present())

    async def sample(self, limit: int) -> KeySample[K]:
        """Up to `limit` keys, running ones first, then by due time. Yields to the loop."""
        present = self._present()
        first = await first_items(present, limit)
        # Some may have finished meanwhile.
        return KeySample(len(present), self._views([item for item in first if item.is_present]))

    def view(self, key: K) -> KeyView[K] | None:
        """One key; None if it is not queued, running or paused."""
        known = self._items.get(key) or (QueueItem(key, paused=True) if key in self._paused else None)
        return None if known is None else self._views([known])[0]

    def running_seconds(self) -> list[float]:
        """For each running key, the seconds since a worker took it."""
        now = self._now()
        return [now - item.running_since for item in self._running if item.running_since is not None]

    def _present(self) -> list[QueueItem[K]]:
        absent = (QueueItem(key, paused=True) for key in self._paused - self._items.keys())
        return [*self._items.values(), *absent]

    def _views(self, items: Sequence[QueueItem[K]]) -> tuple[KeyView[K], ...]:
        now, failures = self._now(), self._failures
        return tuple([item.view(now, failures.get(item.key, 0)) for item in items])

    def _admit(self, key: K) -> QueueItem[K]:
        item = self._items[key] = QueueItem(key, paused=key in self._paused)
        return item

    def _make_ready(self, item: QueueItem[K]) -> None:
        item.state = _READY
        item.ready_at = self._now()
        item.sequence = self._sequence = self._sequence + 1
        self.counters.adds += 1
        self.counters.count_depth(item.priority, 1)
        if item.running_since is None and not item.paused:
            self._offer(item)

    def _offer(self, item: QueueItem[K]) -> None:
        self._ready.push(item, rank(item.ready_at, item.priority), item.sequence)
        if self._ready.size > self._idle.woken:
            self._idle.wake(1)

    def _raise_priority(self, item: QueueItem[K], priority: int) -> None:
        if item.state is _READY:
            self.counters.count_depth(item.priority, -1)
            self.counters.count_depth(priority, 1)
        item.priority = priority
        if item.state is _READY and item.entry is not None:
            self._ready.discard(item)
            self._ready.push(item, rank(item.ready_at, priority), item.sequence)

    def _take(self, now: float) -> QueueItem[K]:
        item = self._ready.pop()
        item.state = _IDLE
        item.running_since = now
        self._running.add(item)
        self.counters.count_depth(item.priority, -1)
        self.counters.waited.observe(now - item.ready_at)
        return item

    async def _until_ready(self) -> None:
        while not self._closed:
            if self._ready.size > self._idle.woken:
                return
            await self._idle.wait()
        raise QueueClosedError(f"workqueue {self.name!r} is closed")
