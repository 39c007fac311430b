"""Which waiter is woken by which change."""

import asyncio

import pytest
from attrs import define

from gpuruntime.control.informers.waiters import Waiters
from gpuruntime.testing.virtual_time import run_virtual


@define
class Progress:
    count: int = 0

    def is_two(self) -> bool:
        return self.count == 2


def test_a_condition_that_holds_is_not_waited_for() -> None:
    async def story() -> float:
        await Waiters().until(lambda: True)
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 0


def test_a_change_wakes_the_waiters_whose_condition_holds_and_no_other() -> None:
    async def story() -> list[str]:
        waiters, progress, woken = Waiters(), Progress(), list[str]()

        async def wait(name: str, goal: int) -> None:
            await waiters.until(lambda: progress.count >= goal)
            woken.append(f"{name} at {progress.count}")

        async with asyncio.TaskGroup() as tasks:
            for name, goal in (("late", 3), ("early", 1), ("also early", 1)):
                tasks.create_task(wait(name, goal))
            for _ in range(3):
                await asyncio.sleep(1)
                progress.count += 1
                waiters.notify()
        return woken

    assert run_virtual(story()) == ["early at 1", "also early at 1", "late at 3"]


def test_a_condition_that_held_after_one_change_counts_although_it_no_longer_holds() -> None:
    async def story() -> None:
        waiters, progress = Waiters(), Progress()
        waiting = asyncio.create_task(waiters.until(progress.is_two))
        await asyncio.sleep(0)

        for progress.count in (1, 2, 3):
            waiters.notify()

        await asyncio.wait_for(waiting, 1)

    run_virtual(story())


def test_a_waiter_that_times_out_is_dropped() -> None:
    async def story() -> Waiters:
        waiters = Waiters()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await waiters.until(lambda: False)
        return waiters

    waiters = run_virtual(story())

    assert not waiters._waiting
    waiters.notify()


def test_a_waiter_cancelled_at_the_moment_of_the_change_is_cancelled() -> None:
    async def story() -> bool:
        waiters, progress = Waiters(), Progress()
        waiting = asyncio.create_task(waiters.until(progress.is_two))
        await asyncio.sleep(0)
        progress.count = 2
        waiters.notify()
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled() and not waiters._waiting

    assert run_virtual(story())


def test_the_error_of_a_condition_goes_to_its_waiter_and_to_no_other() -> None:
    async def story() -> str:
        waiters, progress = Waiters(), Progress()

        def broken() -> bool:
            if progress.count:
                raise RuntimeError("a bug")
            return False

        failing = asyncio.create_task(waiters.until(broken))
        other = asyncio.create_task(waiters.until(lambda: progress.count == 1))
        await asyncio.sleep(0)
        progress.count = 1
        waiters.notify()

        await other
        with pytest.raises(RuntimeError, match="a bug") as caught:
            await failing
        return str(caught.value)

    assert run_virtual(story()) == "a bug"
