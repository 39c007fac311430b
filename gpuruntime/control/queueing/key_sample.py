"""The first keys of a queue that may hold a hundred thousand, without holding up the loop."""

import asyncio
import heapq
import math
from collections.abc import Hashable, Sequence
from typing import Any, Final, Generic, TypeVar

from attrs import frozen

from gpuruntime.control.queueing.work_item import KeyState, KeyView, QueueItem

__all__ = ["Survey", "first_items"]

K = TypeVar("K", bound=Hashable)
_AT_A_TIME: Final = 1000


@frozen
class Survey(Generic[K]):
    """Some keys of a queue, and how many it has."""

    total: int
    first: tuple[KeyView[K], ...]


async def first_items(items: Sequence[QueueItem[K]], limit: int) -> list[QueueItem[K]]:
    """The items to look at first: those with workers, then as they are due, idle ones last.

    Others run while it looks, so an item may have moved on by the end.
    """
    first: list[QueueItem[K]] = []
    for start in range(0, len(items), _AT_A_TIME):
        some = items[start : start + _AT_A_TIME]
        first = heapq.nsmallest(limit, (*first, *some), key=_position)
        await asyncio.sleep(0)
    return first


def _position(item: QueueItem[Any]) -> tuple[bool, float, int]:
    due = math.inf if item.state is KeyState.IDLE else item.ready_at
    return item.running_since is None, due, item.sequence
