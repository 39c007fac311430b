"""What is known of events that happened, and the queue of those that the server must be told about."""

import asyncio
from random import Random
from typing import Final

from attrs import evolve

from gpuruntime.control.events.aggregation import SimilarNotes, combined
from gpuruntime.control.events.budget import EventBudget
from gpuruntime.control.events.counters import DropCause, EventCounters
from gpuruntime.control.events.occurrence import EventKey, Occurrence, cut_note, event_name
from gpuruntime.control.events.series import Series
from gpuruntime.control.lru import LRU
from gpuruntime.kube.builtin.events import ObjectReference

__all__ = ["EventLedger"]

_QUEUE_LIMIT: Final = 1000
_MEMORY: Final = 4096


class EventLedger:
    """Turns occurrences into series, and series into writes that wait for a worker.

    Flow:
        A worker awaits `next`, writes, tells the series what came of it, or calls `lost`, and ends with `done` in any
        case.

    Guarantees:
        A series is never with two workers, and is in the queue once at most: what happens while it waits is told by
        the same write. Each write has a token of the budget of its object, be it the first of a series or not.

        The queue holds at most 1000 series, the memory 4096. An occurrence that finds no place or no token is dropped
        if it is the first of a series. Any other is counted, and told later.
    """

    def __init__(self, counters: EventCounters, random: Random) -> None:
        self._counters = counters
        self._random = random
        self._budget = EventBudget(memory=_MEMORY)
        self._similar = SimilarNotes(memory=_MEMORY)
        self._series: LRU[EventKey, Series] = LRU(_MEMORY)
        self._queue: asyncio.Queue[Series] = asyncio.Queue(_QUEUE_LIMIT)

    def __len__(self) -> int:
        """How many series are remembered."""
        return len(self._series)

    @property
    def depth(self) -> int:
        """How many writes wait for a worker."""
        return self._queue.qsize()

    def observe(self, occurrence: Occurrence) -> None:
        now = occurrence.at.timestamp()
        key, note = occurrence.key, occurrence.note
        alike = key if key.related is None else evolve(key, related=None)
        if self._similar.is_crowded(alike, note, now):
            key, note = alike, cut_note(combined(note))
        series = self._series.get(key)
        if series is None:
            self._open(Series(key, self._name(occurrence), evolve(occurrence, note=note)), now)
            return
        series.observe(note, occurrence.at)
        if series.is_due(now):
            self._enqueue(series, now)

    async def next(self) -> Series:
        return await self._queue.get()

    def lost(self, series: Series, now: float) -> None:
        """The write was given up: the next occurrence is told as if it were the first."""
        series.refused(series.tally, now)
        if self._series.get(series.key) is series:
            self._series.discard(series.key)

    def done(self, series: Series, now: float) -> None:
        """The worker is through with the series."""
        series.is_queued = False
        # What happened during the write may be due. A series that was forgotten meanwhile has nobody else to see to it.
        if series.is_due(now):
            self._enqueue(series, now)
        self._queue.task_done()

    def sweep(self, now: float) -> None:
        """Queue what has become due, and forget what is over. To be called now and then."""
        for series in self._series.values():
            if series.is_over(now):
                self._series.discard(series.key)
            elif series.is_due(now):
                self._enqueue(series, now)

    async def settle(self, now: float) -> None:
        """Wait until the workers have told what is queued, and then all that is not told yet, due or not."""
        await self._queue.join()
        for series in self._series.values():
            if series.untold:
                self._enqueue(series, now)
        await self._queue.join()

    def untold(self) -> int:
        """How many occurrences are remembered that the server was not told of."""
        return sum(series.untold for series in self._series.values())

    def _open(self, series: Series, now: float) -> None:
        cause = self._enqueue(series, now)
        if cause is not None:
            self._counters.dropped[cause] += 1
            return
        evicted = self._series.put(series.key, series)
        if evicted is not None and evicted.untold and self._enqueue(evicted, now) is not None:
            self._counters.dropped[DropCause.FORGOTTEN] += evicted.untold

    def _enqueue(self, series: Series, now: float) -> DropCause | None:
        """Queue a series unless it is; gives the cause if that cannot be."""
        if series.is_queued:
            return None
        if self._queue.full():
            return DropCause.QUEUE_FULL
        if not self._budget.take(_object_of(series.key), now):
            return DropCause.BUDGET
        series.is_queued = True
        self._queue.put_nowait(series)
        return None

    def _name(self, occurrence: Occurrence) -> str:
        return event_name(occurrence.regarding, occurrence.at, self._random)


def _object_of(key: EventKey) -> ObjectReference:
    return evolve(key.regarding, field_path=None)
