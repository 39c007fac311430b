import asyncio
import time

import pytest
from attrs import define

from gpuruntime.aio.clock import seconds_since_boot
from gpuruntime.control.leadership.fence import Fence, NotLeaderError
from gpuruntime.kube.errors import KubeError, UnavailableError
from gpuruntime.testing.virtual_time import run_virtual


@define
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_fence_is_shut_until_it_is_opened_and_again_from_its_deadline_on() -> None:
    clock = Clock(100.0)
    fence = Fence(clock)
    before = fence.remaining()

    fence.open_until(110.0)

    left = []
    for clock.now in (100.0, 109.5, 110.0, 999.0):
        left.append(fence.remaining())
    assert before == 0.0
    assert left == [10.0, 0.5, 0.0, 0.0]


def test_a_fence_that_was_shut_stays_so_until_it_is_opened_anew() -> None:
    fence = Fence(Clock(100.0))
    fence.open_until(110.0)

    fence.shut()

    assert fence.remaining() == 0.0
    with pytest.raises(NotLeaderError, match="PUT /a"):
        fence.check("PUT /a")
    fence.open_until(105.0)
    assert fence.check("PUT /a") == 5.0


def test_the_refusal_is_an_error_of_the_wire_that_is_not_worth_a_second_try() -> None:
    error = NotLeaderError("PUT /a: not sent")

    assert isinstance(error, KubeError)
    assert not isinstance(error, UnavailableError)
    assert not error.outcome_unknown


def test_a_write_in_flight_is_cancelled_at_the_deadline() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        fence = Fence(loop.time)
        fence.open_until(8.0)
        with pytest.raises(NotLeaderError, match="PUT /a") as caught:
            async with fence.passing("PUT /a"):
                await asyncio.sleep(30.0)
        assert caught.value.outcome_unknown
        return loop.time()

    assert run_virtual(story()) == 8.0


def test_writes_in_flight_are_cancelled_when_the_fence_is_shut() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        fence = Fence(loop.time)
        fence.open_until(8.0)
        ends: list[float] = []

        async def write() -> None:
            with pytest.raises(NotLeaderError):
                async with fence.passing("PUT /a"):
                    await asyncio.sleep(30.0)
            ends.append(loop.time())

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            group.create_task(write())
            await asyncio.sleep(3.0)
            fence.shut()
        return ends

    assert run_virtual(story()) == [3.0, 3.0]


def test_shutting_a_fence_at_the_very_deadline_of_a_write_changes_nothing_about_it() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        fence = Fence(loop.time)
        fence.open_until(3.0)

        async def write() -> None:
            with pytest.raises(NotLeaderError):
                async with fence.passing("PUT /a"):
                    await asyncio.sleep(30.0)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            await asyncio.sleep(0)
            loop.call_at(3.0, fence.shut)

    run_virtual(story())


def test_a_timeout_and_a_cancellation_of_the_write_itself_stay_what_they_are() -> None:
    async def story() -> None:
        fence = Fence(asyncio.get_running_loop().time)
        fence.open_until(8.0)

        with pytest.raises(TimeoutError, match="mine"):
            async with fence.passing("PUT /a"):
                raise TimeoutError("mine")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0), fence.passing("PUT /a"):
                await asyncio.sleep(30.0)

    run_virtual(story())


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this platform has no clock that counts suspends")
def test_the_clock_counts_the_time_that_the_machine_was_suspended() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)

    now = seconds_since_boot()

    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)
