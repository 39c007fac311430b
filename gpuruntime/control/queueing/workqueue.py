"""The queue between the events that concern a key and the workers that reconcile it."""

import asyncio
import math
import random
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import Final, Generic, TypeVar

from gpuruntime.aio.loops import require_loop
from gpuruntime.control.queueing.delayed_items import DelayedItems
from gpuruntime.control.queueing.idle_workers import SleepingWorkers
from gpuruntime.control.queueing.key_sample import Survey, first_items
from gpuruntime.control.queueing.priorities import rank
from gpuruntime.control.queueing.queue_metrics import QueueCounters
from gpuruntime.control.queueing.rate_limiter import RateLimiter
from gpuruntime.control.queueing.revisable_heap import RevisableHeap
from gpuruntime.control.queueing.work_item import KeyState, KeyView, QueueItem, WorkItem

__all__ = ["QueueClosedError", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

_CLIENT_GO_DEFAULTS: Final = RateLimiter()
# Looking a member up in its enum costs more than what is done with it.
_IDLE: Final = KeyState.IDLE
_WAITING: Final = KeyState.WAITING
_READY: Final = KeyState.READY


class QueueClosedError(Exception):
    """The queue is closed and hands out nothing more."""


class WorkQueue(Generic[K]):
    """Keys that need work: each once, the urgent first, none with two workers.

    Flow:
        A worker awaits `get`, works, reports with `forget` or `add_rate_limited`, and ends with `done` in any case.

    Guarantees:
        A key is never with two workers. An add of a key that is queued changes nothing, save that the higher priority
        and the earlier time win. Adds of a key that a worker holds lead to exactly one more run after `done`, with the
        highest priority and the earliest time asked for. No add is lost.

        Keys are served in the order of `priorities.rank`: equal priorities in the order in which they became ready, and
        all within a bounded time. A delayed key becomes ready when its delay has passed. A key whose priority is
        raised, that is held back by its own run, or that is paused keeps its age.

        A cancelled `get` takes nothing with it. An add wakes one worker at most, and none for nothing.

    Assumptions:
        One loop, the one that runs when the queue is made, and its thread. Time is the loop's.

    Caveats:
        `get` does not yield to the loop while keys are ready: work that never awaits must do so itself now and then.
    """

    def __init__(
        self,
        name: str,
        *,
        rate_limiter: RateLimiter = _CLIENT_GO_DEFAULTS,
        chance: Callable[[], float] = random.random,
        key_type: type | None = None,
    ) -> None:
        """Make a queue, in a running loop. `key_type` is for sources: a watch names keys of this type only."""
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
        # Only what can be handed out at once: ready, not with a worker, not paused.
        self._ready: RevisableHeap[QueueItem[K]] = RevisableHeap()
        self._delayed: DelayedItems[K] = DelayedItems(loop, self._make_ready)
        self._sequence = 0
        # While workers sleep, each item in `_ready` has a woken worker on its way.
        self._sleepers = SleepingWorkers(loop)
        self._closed = False
        self._drained = asyncio.Event()

    def __len__(self) -> int:
        """How many keys have a run coming, due or not."""
        return self.counters.total_depth() + len(self._delayed)

    def add(self, key: K, *, priority: int = 0, cause: Hashable | None = None) -> None:
        """Ask for a run of a key now, also if it is waiting for a later time."""
        if self._closed:
            return
        item = self._items.get(key) or self._admit(key)
        if cause is not None:
            item.note(cause)
        state = item.state
        if state is _IDLE:
            item.priority = priority
            self._make_ready(item)
            item.asked_at = item.ready_at
            return
        if priority > item.priority:
            self._raise_priority(item, priority)
        if state is _WAITING:
            self._delayed.discard(item)
            self._make_ready(item)

    def add_after(self, key: K, seconds: float, *, priority: int = 0, cause: Hashable | None = None) -> None:
        """Ask for a run of a key once the seconds have passed; without any, now.

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
            item.note(cause)
        now = self._now()
        if item.state is _IDLE:
            item.state = _WAITING
            item.priority = priority
            item.asked_at = now
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
        """Count a failure of a key, and ask for a run after the delay that it has earned."""
        if self._closed:
            return
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, self._rate_limiter.delay(failures, self._chance()), priority=priority, cause=cause)

    def forget(self, key: K) -> None:
        """Forget the failures of a key. Runs that are asked for stay."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often a key failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def pause(self, key: K) -> None:
        """Hand out a key no more until it is resumed. What is asked for is kept; a run under way goes on."""
        self._paused.add(key)
        item = self._items.get(key)
        if item is not None and not item.paused:
            item.paused = True
            if item.state is _READY and item.running_since is None:
                self._ready.discard(item)

    def resume(self, key: K) -> None:
        """End a pause. The key takes the place that it would have without it."""
        self._paused.discard(key)
        item = self._items.get(key)
        if item is not None and item.paused:
            item.paused = False
            if item.state is _READY and item.running_since is None:
                self._offer(item)

    async def get(self) -> K:
        """The next key; it belongs to the caller until `done`.

        Raises:
            QueueClosedError: the queue is closed, or was while the caller waited.
        """
        if self._closed or self._ready.size <= self._sleepers.woken:
            await self._until_ready()
        item = self._take(self._now())
        if item.causes is not None:
            item.take_causes()
        return item.key

    async def get_with_causes(self) -> WorkItem[K]:
        """The next key as `get` gives it, with the story of how it came to be next.

        Raises:
            QueueClosedError: the queue is closed, or was while the caller waited.
        """
        if self._closed or self._ready.size <= self._sleepers.woken:
            await self._until_ready()
        now = self._now()
        item = self._take(now)
        causes, dropped = item.take_causes()
        attempt = self._failures.get(item.key, 0) + 1
        return WorkItem(item.key, item.priority, attempt, now - item.ready_at, causes, dropped)

    def done(self, key: K) -> None:
        """Give back a key, which may be run again from now on. To be called once for each `get`, closed or not.

        Raises:
            ValueError: no worker holds the key.
        """
        item = self._items.get(key)
        if item is None or item.running_since is None:
            raise ValueError(f"no worker holds {key!r} of workqueue {self.name!r}: call done once for each get")
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
        """Hand out nothing more: waiting workers get `QueueClosedError`, and later adds are dropped silently.

        Caveats:
            What is queued is dropped. Work follows from the state of the world and not from the queue, so whoever
            starts next finds it again.
        """
        self._closed = True
        self._ready.clear()
        self._delayed.clear()
        for item in self._items.values():
            if item.state is _READY:
                self.counters.count_depth(item.priority, -1)
            item.withdraw()
        self._items = {item.key: item for item in self._running}
        self._sleepers.wake_all()
        if not self._running:
            self._drained.set()

    async def drain(self, timeout: float) -> tuple[K, ...]:  # noqa: ASYNC109 - the answer is what a cut-off wait found
        """Close the queue and wait until every worker has called `done`, so many seconds at most.

        Returns:
            The keys that are still with workers: none if all ended in time.
        """
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._drained.wait()
        return tuple(item.key for item in self._running)

    def snapshot(self) -> tuple[KeyView[K], ...]:
        """Every key that is queued, held or paused, for people to look at; the order means nothing."""
        return self._views(self._present())

    async def survey(self, limit: int) -> Survey[K]:
        """So many of these keys, those with workers first, then as they are due. However many there are, others run."""
        present = self._present()
        first = await first_items(present, limit)
        # Meanwhile some may be done.
        return Survey(len(present), self._views([item for item in first if item.is_present]))

    def view(self, key: K) -> KeyView[K] | None:
        """One key; None if it is neither queued nor held nor paused."""
        known = self._items.get(key) or (QueueItem(key, paused=True) if key in self._paused else None)
        return None if known is None else self._views([known])[0]

    def running_seconds(self) -> list[float]:
        """For each key that a worker holds, how long it has held it."""
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
        if self._ready.size > self._sleepers.woken:
            self._sleepers.wake(1)

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
            if self._ready.size > self._sleepers.woken:
                return
            await self._sleepers.sleep()
        raise QueueClosedError(f"workqueue {self.name!r} is closed")
