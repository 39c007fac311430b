import asyncio

import pytest

from gpuruntime.control.queueing.delayed_items import DelayedItems
from gpuruntime.control.queueing.work_item import QueueItem
from gpuruntime.testing.virtual_time import DeadlockError, run_virtual


class Scene:
    """Delayed items in the running loop, and when each became due."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.left: list[tuple[str, float]] = []
        self.delayed: DelayedItems[str] = DelayedItems(
            self.loop, lambda item: self.left.append((item.key, self.loop.time()))
        )

    def add(self, key: str, ready_at: float) -> QueueItem[str]:
        item = QueueItem(key, paused=False)
        item.ready_at = ready_at
        self.delayed.add(item)
        return item


def test_items_leave_when_due_and_equal_ones_in_insertion_order() -> None:
    async def story() -> list[tuple[str, float]]:
        scene = Scene()
        for key, ready_at in (("late", 7.5), ("soon", 2.5), ("soon too", 2.5), ("first", 1.0)):
            scene.add(key, ready_at)
        await asyncio.sleep(10)
        return scene.left

    left = run_virtual(story())

    assert left == [("first", 1.0), ("soon", 2.5), ("soon too", 2.5), ("late", 7.5)]


def test_a_discarded_item_does_not_become_due() -> None:
    async def story() -> tuple[list[tuple[str, float]], int]:
        scene = Scene()
        first = scene.add("first", 1.0)
        scene.add("second", 2.0)
        scene.delayed.discard(first)
        await asyncio.sleep(10)
        return scene.left, len(scene.delayed)

    assert run_virtual(story()) == ([("second", 2.0)], 0)


def test_no_timer_is_left_without_items() -> None:
    ended_at: list[float] = []

    async def story() -> None:
        scene = Scene()
        scene.delayed.discard(scene.add("alone", 3600.0))
        scene.add("cleared", 7200.0)
        scene.delayed.clear()
        try:
            await scene.loop.create_future()
        finally:
            ended_at.append(scene.loop.time())

    with pytest.raises(DeadlockError):
        run_virtual(story())

    assert ended_at == [0.0]


def test_an_item_may_be_added_again_when_it_is_due() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        times: list[float] = []

        def again(item: QueueItem[str]) -> None:
            times.append(loop.time())
            item.ready_at += 10
            delayed.add(item)

        delayed: DelayedItems[str] = DelayedItems(loop, again)
        item = QueueItem("clock", paused=False)
        item.ready_at = 5.0
        delayed.add(item)
        await asyncio.sleep(30)
        delayed.clear()
        return times

    assert run_virtual(story()) == [5.0, 15.0, 25.0]
