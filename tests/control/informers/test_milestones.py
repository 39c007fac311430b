"""Who is woken by which step."""

import asyncio

import pytest
from attrs import define

from gpuruntime.control.informers.milestones import Milestones
from gpuruntime.testing.virtual_time import run_virtual


@define
class Progress:
    count: int = 0

    def is_two(self) -> bool:
        return self.count == 2


def test_a_condition_that_holds_is_not_waited_for() -> None:
    async def story() -> float:
        await Milestones().reached(lambda: True)
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 0


def test_a_step_wakes_those_whose_condition_holds_and_nobody_else() -> None:
    async def story() -> list[str]:
        milestones, progress, woken = Milestones(), Progress(), list[str]()

        async def wait(name: str, goal: int) -> None:
            await milestones.reached(lambda: progress.count >= goal)
            woken.append(f"{name} at {progress.count}")

        async with asyncio.TaskGroup() as tasks:
            for name, goal in (("late", 3), ("early", 1), ("also early", 1)):
                tasks.create_task(wait(name, goal))
            for _ in range(3):
                await asyncio.sleep(1)
                progress.count += 1
                milestones.step()
        return woken

    assert run_virtual(story()) == ["early at 1", "also early at 1", "late at 3"]


def test_a_condition_that_held_after_one_step_counts_although_it_does_not_hold_any_more() -> None:
    async def story() -> None:
        milestones, progress = Milestones(), Progress()
        waiting = asyncio.create_task(milestones.reached(progress.is_two))
        await asyncio.sleep(0)

        for progress.count in (1, 2, 3):
            milestones.step()

        await asyncio.wait_for(waiting, 1)

    run_virtual(story())


def test_whoever_gives_up_waiting_is_forgotten() -> None:
    async def story() -> Milestones:
        milestones = Milestones()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await milestones.reached(lambda: False)
        return milestones

    milestones = run_virtual(story())

    assert not milestones._waiting
    milestones.step()


def test_whoever_is_cancelled_in_the_moment_of_the_step_is_cancelled_all_the_same() -> None:
    async def story() -> bool:
        milestones, progress = Milestones(), Progress()
        waiting = asyncio.create_task(milestones.reached(progress.is_two))
        await asyncio.sleep(0)
        progress.count = 2
        milestones.step()
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled() and not milestones._waiting

    assert run_virtual(story())


def test_a_condition_that_fails_is_the_error_of_its_waiter_and_of_nobody_else() -> None:
    async def story() -> str:
        milestones, progress = Milestones(), Progress()

        def broken() -> bool:
            if progress.count:
                raise RuntimeError("a bug")
            return False

        failing = asyncio.create_task(milestones.reached(broken))
        other = asyncio.create_task(milestones.reached(lambda: progress.count == 1))
        await asyncio.sleep(0)
        progress.count = 1
        milestones.step()

        await other
        with pytest.raises(RuntimeError, match="a bug") as caught:
            await failing
        return str(caught.value)

    assert run_virtual(story()) == "a bug"
