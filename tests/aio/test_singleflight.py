"""Concurrent callers share one run."""

import asyncio

import pytest

from gpuruntime.aio.singleflight import Singleflight


class Work:
    """Work that ends on request, and counts its starts and cancellations."""

    def __init__(self) -> None:
        self.starts = 0
        self.cancelled = 0
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.starts += 1
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error:
            raise self.error
        return self.starts


async def test_concurrent_waiters_share_one_run_and_later_ones_start_another() -> None:
    work = Work()
    run = Singleflight(work)

    async with asyncio.TaskGroup() as group:
        waiters = [group.create_task(run.do()) for _ in range(10)]
        await work.started.wait()
        work.may_end.set()
    later = await run.do()

    assert [waiter.result() for waiter in waiters] == [1] * 10
    assert later == 2


async def test_a_cancelled_waiter_does_not_cancel_the_run_of_the_others() -> None:
    work = Work()
    run = Singleflight(work)

    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(run.do()), group.create_task(run.do())
        await work.started.wait()
        first.cancel()
        await asyncio.wait((first,))
        work.may_end.set()

    assert first.cancelled()
    assert second.result() == 1
    assert work.cancelled == 0


async def test_the_last_waiter_to_be_cancelled_cancels_the_run_and_sees_it_end() -> None:
    work = Work()
    run = Singleflight(work)

    async with asyncio.TaskGroup() as group:
        waiters = [group.create_task(run.do()) for _ in range(3)]
        await work.started.wait()
        for waiter in waiters:
            waiter.cancel()

    assert work.cancelled == 1
    assert len(asyncio.all_tasks()) == 1


async def test_a_run_can_be_started_while_an_abandoned_one_ends() -> None:
    work = Work()
    run = Singleflight(work)

    async with asyncio.TaskGroup() as group:
        abandoned = group.create_task(run.do())
        await work.started.wait()
        abandoned.cancel()
        await asyncio.sleep(0)
        work.may_end.set()
        result = await run.do()

    assert result == work.starts == 2


async def test_a_failure_reaches_every_waiter() -> None:
    work = Work()
    work.error = ValueError("no")
    run = Singleflight(work)
    work.may_end.set()

    outcomes = await asyncio.gather(run.do(), run.do(), return_exceptions=True)

    assert list(outcomes) == [work.error, work.error]
    with pytest.raises(ValueError, match="no"):
        await run.do()
