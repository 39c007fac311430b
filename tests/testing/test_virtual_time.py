import asyncio

import pytest

from gpuruntime.testing.virtual_time import DeadlockError, run_virtual


def test_sleeping_takes_no_time_and_the_clock_moves_exactly() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        for seconds in (0.25, 3600, 86400):
            await asyncio.sleep(seconds)
            times.append(loop.time())
        return times

    assert run_virtual(story()) == [0, 0.25, 3600.25, 90000.25]


def test_ready_tasks_run_before_the_clock_moves() -> None:
    async def story() -> list[str]:
        order: list[str] = []

        async def worker(name: str, pause: float) -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            order.append(f"{name} at {asyncio.get_running_loop().time()}")
            await asyncio.sleep(pause)
            order.append(f"{name} at {asyncio.get_running_loop().time()}")

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker("slow", 2))
            tasks.create_task(worker("quick", 1))
        return order

    assert run_virtual(story()) == ["slow at 0.0", "quick at 0.0", "quick at 1.0", "slow at 2.0"]


def test_timeouts_fire() -> None:
    async def story() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert run_virtual(story()) == 30


def test_a_deadlock_is_an_error_and_not_a_hang() -> None:
    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError):
        run_virtual(story())
