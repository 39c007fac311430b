"""A sample of the keys of a queue, taken without blocking the loop even for a hundred thousand keys."""

import asyncio
import heapq
import math
from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control.queueing.work_item import KeyState, KeyView, QueueItem

__all__ = ["KeySample", "first_items"]

K = TypeVar("K", bound=Hashable)
_BATCH: Final = 1000


@frozen
class KeySample(Generic[K]):
    """The first keys of a queue, and how many keys it has in total."""

    total: int
    first: tuple[KeyView[K], ...]


async def first_items(items: Sequence[QueueItem[K]], limit: int) -> list[QueueItem[K]]:
    """Up to `limit` items: running ones first, then by due time, idle ones last.

    Yields to the loop between batches, so an item may have changed by the end.
    """
    first: list[QueueItem[K]] = []
    for start in range(0, len(items), _BATCH):
        batch = items[start : start + _BATCH]
        first = heapq.nsmallest(limit, (*first, *batch), key=_position)
        await asyncio.sleep(0)
    return first


def _position(item: QueueItem[Any]) -> tuple[bool, float, int]:
    due = math.inf if item.state is KeyState.IDLE else item.ready_at
    return item.running_since is None, due, item.sequence
