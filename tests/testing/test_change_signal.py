"""No waiter misses an announcement."""

import asyncio

from gpuruntime.testing.change_signal import ChangeSignal


async def test_waiting_for_a_condition_that_holds_returns_at_once() -> None:
    signal = ChangeSignal()

    await signal.until(lambda: True)


async def test_every_waiter_checks_again_after_each_announcement() -> None:
    signal = ChangeSignal()
    state: list[int] = []
    looks: list[int] = []

    def enough(count: int) -> bool:
        looks.append(count)
        return len(state) >= count

    async with asyncio.TaskGroup() as group:
        first = group.create_task(signal.until(lambda: enough(1)))
        second = group.create_task(signal.until(lambda: enough(2)))
        await asyncio.sleep(0)
        state.append(1)
        signal.announce()
        await first
        assert not second.done()
        state.append(2)
        signal.announce()

    assert looks == [1, 2, 1, 2, 2]


async def test_one_announcement_is_one_change() -> None:
    signal = ChangeSignal()

    async with asyncio.TaskGroup() as group:
        first = group.create_task(signal.change())
        await asyncio.sleep(0)
        signal.announce()
        await first
        second = group.create_task(signal.change())
        await asyncio.sleep(0)
        waits = not second.done()
        signal.announce()

    assert waits
