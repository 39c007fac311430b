"""Delayed adds: items that are not due yet, driven by a single timer."""

import asyncio
import math
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from gpuruntime.control.queueing.revisable_heap import RevisableHeap
from gpuruntime.control.queueing.work_item import QueueItem

__all__ = ["DelayedItems"]

K = TypeVar("K", bound=Hashable)


class DelayedItems(Generic[K]):
    """Items ordered by `ready_at`; an item that is due is removed and passed to `on_due`.

    Guarantees:
        Items that are due together leave in the order of `ready_at`, then in the order of `add`. The loop holds one
        timer, for the first item, and none while there are no items.
    """

    __slots__ = ("_heap", "_loop", "_on_due", "_sequence", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, on_due: Callable[[QueueItem[K]], None]) -> None:
        self._loop = loop
        self._on_due = on_due
        self._heap: RevisableHeap[QueueItem[K]] = RevisableHeap()
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def __len__(self) -> int:
        return self._heap.size

    def add(self, item: QueueItem[K]) -> None:
        self._sequence += 1
        self._heap.push(item, item.ready_at, self._sequence)
        self._set_timer()

    def discard(self, item: QueueItem[K]) -> None:
        """Remove an item before it is due."""
        self._heap.discard(item)
        self._set_timer()

    def clear(self) -> None:
        self._heap.clear()
        self._set_timer()

    def _set_timer(self) -> None:
        first = self._heap.first()
        at = math.inf if first is None else first.ready_at
        if at == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if first is None else self._loop.call_at(at, self._fire)
        self._timer_at = at

    def _fire(self) -> None:
        # A loop may call back early by a fraction of its clock's resolution. Treat the item that the timer was set for
        # as due: setting the timer again would make the loop spin.
        now = max(self._loop.time(), self._timer_at)
        self._timer, self._timer_at = None, math.inf
        heap = self._heap
        while (first := heap.first()) is not None and first.ready_at <= now:
            self._on_due(heap.pop())
        self._set_timer()
