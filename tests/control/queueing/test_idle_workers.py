import asyncio

from gpuruntime.control.queueing.idle_workers import IdleWorkers


class Pool:
    """Workers that record their name when they are woken."""

    def __init__(self, group: asyncio.TaskGroup, *names: str) -> None:
        self.idle = IdleWorkers(asyncio.get_running_loop())
        self.ran: list[str] = []
        self.tasks = {name: group.create_task(self._wait(name)) for name in names}

    async def _wait(self, name: str) -> None:
        await self.idle.wait()
        self.ran.append(name)


async def rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_worker_cancelled_before_it_was_woken_is_skipped() -> None:
    async with asyncio.TaskGroup() as group:
        pool = Pool(group, "a", "b")
        await rounds()

        pool.tasks["a"].cancel()
        pool.idle.wake(1)
        await rounds()

        assert (pool.ran, pool.idle.woken) == (["b"], 0)


async def test_cancelled_workers_leave_nothing_behind() -> None:
    idle = IdleWorkers(asyncio.get_running_loop())

    for _ in range(100):
        task = asyncio.create_task(idle.wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait((task,))

    assert len(idle._waiters) == 0
    assert idle.woken == 0
