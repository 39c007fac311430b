import asyncio
import logging

import pytest

from gpuruntime.control.runnable_group import RunnableGroup
from gpuruntime.testing.virtual_time import run_virtual


def no_alarm(error: BaseException) -> None:
    pytest.fail(str(error))


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_leaving_cancels_and_awaits_the_tasks_of_the_group_only() -> None:
    async def story() -> tuple[list[str], bool]:
        ended: list[str] = []

        async def work(name: str, cleanup: float) -> None:
            try:
                await for_ever()
            finally:
                await asyncio.sleep(cleanup)
                ended.append(name)

        foreign = asyncio.create_task(for_ever())
        async with RunnableGroup("workers", no_alarm, lambda: 30.0) as group:
            group.start(work("slow", 20), "slow")
            group.start(work("quick", 1), "quick")
            await asyncio.sleep(1)
        alive = not foreign.done()
        foreign.cancel()
        return ended, alive

    assert run_virtual(story()) == (["quick", "slow"], True)


def test_a_failure_raises_the_alarm_at_once() -> None:
    async def story() -> tuple[float, BaseException]:
        alarm: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        async def fail() -> None:
            await asyncio.sleep(5)
            raise ValueError("boom")

        async with RunnableGroup("workers", alarm.set_result, lambda: 30.0) as group:
            group.start(for_ever(), "steady")
            group.start(fail(), "failing")
            error = await alarm
            return asyncio.get_running_loop().time(), error

    time, error = run_virtual(story())
    assert (time, str(error)) == (5, "boom")


def test_a_runnable_that_returns_is_a_failure() -> None:
    async def story() -> BaseException:
        alarm: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        async with RunnableGroup("workers", alarm.set_result, lambda: 30.0) as group:
            group.start(asyncio.sleep(1), "short-lived")
            return await alarm

    assert "short-lived" in str(run_virtual(story()))


def test_a_runnable_that_something_else_cancelled_is_a_failure() -> None:
    async def story() -> BaseException:
        alarm: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        async def cancelled() -> None:
            shared = asyncio.ensure_future(for_ever())
            shared.cancel()
            await shared

        async with RunnableGroup("workers", alarm.set_result, lambda: 30.0) as group:
            group.start(cancelled(), "cancelled")
            return await alarm

    error = run_virtual(story())
    assert isinstance(error, RuntimeError)
    assert str(error).startswith("cancelled ")


def test_a_task_that_ends_quickly_gets_a_second_even_without_grace() -> None:
    async def story() -> list[str]:
        ended: list[str] = []

        async def quick() -> None:
            try:
                await for_ever()
            finally:
                await asyncio.sleep(0.5)
                ended.append("quick")

        async with RunnableGroup("workers", no_alarm, lambda: -5.0) as group:
            group.start(quick(), "quick")
            await asyncio.sleep(0)
        return ended

    assert run_virtual(story()) == ["quick"]


def test_a_task_that_does_not_stop_is_logged_and_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def story() -> float:
        release = asyncio.Event()

        async def stubborn() -> None:
            try:
                await for_ever()
            finally:
                await release.wait()

        async with RunnableGroup("workers", no_alarm, lambda: 3.0) as group:
            group.start(stubborn(), "the stubborn one")
            await asyncio.sleep(0)
        ended = asyncio.get_running_loop().time()
        release.set()
        return ended

    assert run_virtual(story()) == 3
    assert caplog.records[0].__dict__["tasks"] == ["the stubborn one"]


def test_nothing_starts_outside_the_block() -> None:
    async def story() -> None:
        group = RunnableGroup("workers", no_alarm, lambda: 1.0)
        with pytest.raises(RuntimeError, match="workers"):
            group.start(for_ever(), "early")

    run_virtual(story())
