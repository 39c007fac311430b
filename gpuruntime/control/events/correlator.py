"""The event correlator: groups occurrences into series, and queues series for delivery."""

import asyncio
from enum import StrEnum
from random import Random
from typing import Final

from attrs import evolve

from gpuruntime.aio.lru import LRU
from gpuruntime.control.events.series import EventKey, Occurrence, Series, event_name, truncate_note
from gpuruntime.control.events.spam_filter import Aggregator, SpamFilter, aggregated
from gpuruntime.kube.builtin.events import ObjectReference

__all__ = ["DropCause", "EventCorrelator", "EventCounters"]

_QUEUE_LIMIT: Final = 1000
_LRU_SIZE: Final = 4096


class DropCause(StrEnum):
    """Why an event was dropped before delivery."""

    INVALID = "invalid"
    """The server would refuse it, because it has no reason, for instance. A bug in the program."""
    SPAM_FILTER = "spam_filter"
    """Too many events about one object."""
    QUEUE_FULL = "queue_full"
    """Too many undelivered events: the server is slow or unavailable."""
    EVICTED = "evicted"
    """Its series was evicted from the LRU before it was delivered."""
    NOT_LEADER = "not_leader"
    """This replica is not the leader, and the recorder sends only while leading."""
    STOPPED = "stopped"
    """The recorder stopped before it was delivered."""


class EventCounters:
    """Counters since the recorder was created.

    `sent` are created events, `patched` are updates of events, `failed` are writes that the server refused or that ran
    out of retries. `dropped` are occurrences, by cause.
    """

    __slots__ = ("dropped", "failed", "patched", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.patched = 0
        self.failed = 0
        self.dropped: dict[DropCause, int] = dict.fromkeys(DropCause, 0)


class EventCorrelator:
    """Groups occurrences into series, and queues series for delivery.

    Flow:
        A worker awaits `next`, writes the series, calls `accepted` or `refused` on it or `give_up` here, and always
        ends with `done`.

    Guarantees:
        At most one worker has a series, and a series is queued at most once: occurrences that come while it waits are
        part of the same write. Each write takes a token from the spam filter of its object.

        The queue holds at most 1000 series, the LRU 4096. If the queue is full or no token is left, the first
        occurrence of a series is dropped. Any later occurrence is counted and delivered later.
    """

    def __init__(self, counters: EventCounters, random: Random) -> None:
        self._counters = counters
        self._random = random
        self._spam_filter = SpamFilter(lru_size=_LRU_SIZE)
        self._aggregator = Aggregator(lru_size=_LRU_SIZE)
        self._series: LRU[EventKey, Series] = LRU(_LRU_SIZE)
        self._queue: asyncio.Queue[Series] = asyncio.Queue(_QUEUE_LIMIT)

    def __len__(self) -> int:
        """The number of series in the LRU."""
        return len(self._series)

    @property
    def depth(self) -> int:
        """The number of queued series."""
        return self._queue.qsize()

    def observe(self, occurrence: Occurrence) -> None:
        """Add an occurrence to its series, and queue the series if it is due."""
        now = occurrence.at.timestamp()
        key, note = occurrence.key, occurrence.note
        group = key if key.related is None else evolve(key, related=None)
        if self._aggregator.observe(group, note, now):
            key, note = group, truncate_note(aggregated(note))
        series = self._series.get(key)
        if series is None:
            name = event_name(occurrence.regarding, occurrence.at, self._random)
            self._open(Series(key, name, evolve(occurrence, note=note)), now)
            return
        series.observe(note, occurrence.at)
        if series.is_due(now):
            self._enqueue(series, now)

    async def next(self) -> Series:
        """The next series to deliver."""
        return await self._queue.get()

    def give_up(self, series: Series, now: float) -> None:
        """Abandon the write: the next occurrence starts a new series."""
        series.refused(series.tally, now)
        if self._series.get(series.key) is series:
            self._series.discard(series.key)

    def done(self, series: Series, now: float) -> None:
        """Mark the delivery of a series as finished."""
        series.is_queued = False
        # Occurrences during the write may be due. If the series was evicted meanwhile, `sweep` would not find it.
        if series.is_due(now):
            self._enqueue(series, now)
        self._queue.task_done()

    def sweep(self, now: float) -> None:
        """Queue the series that have become due, and remove those that are over. Call it periodically."""
        for series in self._series.values():
            if series.is_over(now):
                self._series.discard(series.key)
            elif series.is_due(now):
                self._enqueue(series, now)

    async def flush(self, now: float) -> None:
        """Wait until the queue is delivered, then queue every series with pending occurrences and wait again."""
        await self._queue.join()
        for series in self._series.values():
            if series.pending:
                self._enqueue(series, now)
        await self._queue.join()

    def pending(self) -> int:
        """The number of occurrences that are not delivered yet."""
        return sum(series.pending for series in self._series.values())

    def _open(self, series: Series, now: float) -> None:
        cause = self._enqueue(series, now)
        if cause is not None:
            self._counters.dropped[cause] += 1
            return
        evicted = self._series.put(series.key, series)
        if evicted is not None and evicted.pending and self._enqueue(evicted, now) is not None:
            self._counters.dropped[DropCause.EVICTED] += evicted.pending

    def _enqueue(self, series: Series, now: float) -> DropCause | None:
        """Queue a series once; returns why it could not be queued."""
        if series.is_queued:
            return None
        if self._queue.full():
            return DropCause.QUEUE_FULL
        if not self._spam_filter.take(_object_of(series.key), now):
            return DropCause.SPAM_FILTER
        series.is_queued = True
        self._queue.put_nowait(series)
        return None


def _object_of(key: EventKey) -> ObjectReference:
    return evolve(key.regarding, field_path=None)
