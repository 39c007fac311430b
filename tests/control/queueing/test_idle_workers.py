import asyncio

from gpuruntime.control.queueing.idle_workers import SleepingWorkers


class Dormitory:
    """Workers that note their name when they wake."""

    def __init__(self, group: asyncio.TaskGroup, *names: str) -> None:
        self.sleepers = SleepingWorkers(asyncio.get_running_loop())
        self.awake: list[str] = []
        self.tasks = {name: group.create_task(self._sleep(name)) for name in names}

    async def _sleep(self, name: str) -> None:
        await self.sleepers.sleep()
        self.awake.append(name)


async def rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_as_many_wake_as_are_called_those_first_who_came_first() -> None:
    async with asyncio.TaskGroup() as group:
        dormitory = Dormitory(group, "a", "b", "c")
        await rounds()

        dormitory.sleepers.wake(1)
        dormitory.sleepers.wake(1)
        called = dormitory.sleepers.woken
        await rounds()

        assert (called, dormitory.awake, dormitory.sleepers.woken) == (2, ["a", "b"], 0)
        dormitory.sleepers.wake_all()


async def test_a_call_without_sleepers_is_no_debt() -> None:
    async with asyncio.TaskGroup() as group:
        dormitory = Dormitory(group, "a")
        dormitory.sleepers.wake(1)

        await rounds()

        assert dormitory.awake == []
        dormitory.sleepers.wake_all()


async def test_a_worker_cancelled_after_it_was_woken_wakes_the_next() -> None:
    async with asyncio.TaskGroup() as group:
        dormitory = Dormitory(group, "a", "b")
        await rounds()

        dormitory.sleepers.wake(1)
        dormitory.tasks["a"].cancel()
        await rounds()

        assert dormitory.tasks["a"].cancelled()
        assert (dormitory.awake, dormitory.sleepers.woken) == (["b"], 0)


async def test_a_worker_cancelled_before_it_was_woken_is_passed_over() -> None:
    async with asyncio.TaskGroup() as group:
        dormitory = Dormitory(group, "a", "b")
        await rounds()

        dormitory.tasks["a"].cancel()
        dormitory.sleepers.wake(1)
        await rounds()

        assert (dormitory.awake, dormitory.sleepers.woken) == (["b"], 0)


async def test_workers_that_gave_up_leave_nothing_behind() -> None:
    sleepers = SleepingWorkers(asyncio.get_running_loop())

    for _ in range(100):
        task = asyncio.create_task(sleepers.sleep())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))

    assert len(sleepers._line) == 0
    assert sleepers.woken == 0
