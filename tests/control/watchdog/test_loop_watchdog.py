import asyncio
import logging
import threading
import time
from collections.abc import Callable

import pytest

from gpuruntime.control.watchdog.loop_watchdog import LoopWatchdog, Stall
from gpuruntime.control.watchdog.thread_cpu import CpuTimes


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def grind(clock: Clock, seconds: float, until: Callable[[], object]) -> None:
    """Block the loop like busy code: for `seconds` on the clock, and in real time for as long as the test needs."""
    clock.now += seconds
    while not until():
        pass


def stack_of(record: logging.LogRecord) -> str:
    return str(record.__dict__["stack"])


def watchdog_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "loop watchdog"]


async def test_the_blocking_stack_is_logged_during_a_stall(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with LoopWatchdog(threshold=0.02, now=clock):
        grind(clock, 3, until=lambda: caplog.records)

        (record,) = caplog.records
        assert record.message == "the event loop is blocked"
        assert "in grind" in stack_of(record)


async def test_the_duration_of_a_stall_is_logged_and_reported_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    reported: asyncio.Queue[Stall] = asyncio.Queue()
    clock = Clock()
    async with LoopWatchdog(threshold=0.02, now=clock, on_stall=reported.put_nowait) as watchdog:
        grind(clock, 3.01, until=lambda: caplog.records)

        stall = await reported.get()

    assert stall.seconds == pytest.approx(3.0)
    assert "in grind" in stall.stack
    assert [record.message for record in caplog.records] == ["the event loop is blocked", "the event loop was blocked"]
    assert caplog.records[1].__dict__["seconds"] == 3.0
    assert (watchdog.stalls, watchdog.longest_seconds) == (1, stall.seconds)


async def test_a_stall_that_ends_with_the_block_is_counted_too() -> None:
    clock = Clock()
    async with LoopWatchdog(threshold=0.5, now=clock) as watchdog:
        clock.now += 3.25

    assert (watchdog.stalls, watchdog.longest_seconds) == (1, 3.0)


async def test_a_stall_is_logged_once_however_long_it_is(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    async with LoopWatchdog(threshold=0.01, now=clock):
        grind(clock, 3, until=lambda: caplog.records)
        enough_for_twenty_looks = time.monotonic() + 0.1
        grind(clock, 300, until=lambda: time.monotonic() > enough_for_twenty_looks)

        assert len(caplog.records) == 1


async def test_a_stopped_process_is_a_stall_without_a_stack(caplog: pytest.LogCaptureFixture) -> None:
    reported: asyncio.Queue[Stall] = asyncio.Queue()
    moments = iter([2.99])

    def now() -> float:
        """Stands at 0 until the thread goes to sleep at 2.99, to be woken at 100."""
        if threading.current_thread().name == "loop watchdog":
            return next(moments, 100.0)
        return 0.0 if next(beats, None) else 100.0

    beats = iter(["the first"])
    async with LoopWatchdog(threshold=2, now=now, on_stall=reported.put_nowait):
        stall = await reported.get()

    assert stall == Stall(99.0, "")
    assert [record.message for record in caplog.records] == ["the event loop was blocked"]


async def test_the_longest_of_several_stalls_is_remembered() -> None:
    reported: asyncio.Queue[Stall] = asyncio.Queue()
    clock = Clock()
    async with LoopWatchdog(threshold=0.02, now=clock, on_stall=reported.put_nowait) as watchdog:
        for seconds in (1, 7, 2):
            clock.now += seconds
            await reported.get()

    assert watchdog.stalls == 3
    assert watchdog.longest_seconds == pytest.approx(6.99)


async def test_a_loop_that_keeps_up_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    beats = asyncio.Event()
    looks = 0

    def now() -> float:
        nonlocal looks
        looks += 1
        if looks > 10:
            beats.set()
        return 0.0

    async with LoopWatchdog(threshold=0.001, now=now) as watchdog:
        await beats.wait()

    assert watchdog.stalls == 0
    assert not caplog.records


async def test_a_failing_listener_does_not_end_the_watch() -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["exception"]))
    reported: asyncio.Queue[Stall] = asyncio.Queue()
    clock = Clock()

    def listen(stall: Stall) -> None:
        reported.put_nowait(stall)
        raise LookupError("of the listener's own")

    async with LoopWatchdog(threshold=0.02, now=clock, on_stall=listen):
        for _ in range(2):
            clock.now += 1
            await reported.get()

    assert [type(failure) for failure in failures] == [LookupError, LookupError]


async def test_the_lateness_of_the_loop_is_known_while_it_is_watched() -> None:
    clock = Clock()
    watchdog = LoopWatchdog(threshold=0.5, now=clock)
    found = [watchdog.lateness]

    async with watchdog:
        found.append(watchdog.lateness)
        clock.now += 8.25
        found.append(watchdog.lateness)
    found.append(watchdog.lateness)

    assert found == [None, 0.0, 8.0, None]


async def test_the_thread_ends_with_the_block_even_if_that_fails() -> None:
    async def fail_while_watched() -> None:
        async with LoopWatchdog():
            assert len(watchdog_threads()) == 1
            raise LookupError

    with pytest.raises(LookupError):
        await fail_while_watched()

    assert not watchdog_threads()


async def test_a_watchdog_is_used_once() -> None:
    watchdog = LoopWatchdog()
    async with watchdog:
        pass

    with pytest.raises(RuntimeError):
        async with watchdog:
            pass


@pytest.mark.parametrize("threshold", [0, -1, float("nan")])
def test_a_threshold_must_be_positive(threshold: float) -> None:
    with pytest.raises(ValueError, match="0 seconds"):
        LoopWatchdog(threshold)


async def test_a_loop_without_cpu_is_starved_and_no_stack_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reported: asyncio.Queue[Stall] = asyncio.Queue()
    clock, looks = Clock(), list[int]()

    def cpu() -> CpuTimes:
        looks.append(1)
        return CpuTimes(used=1.0, waited=clock.now, is_runnable=True)

    async with LoopWatchdog(threshold=0.02, now=clock, on_stall=reported.put_nowait, cpu=cpu) as watchdog:
        seen = len(looks)
        grind(clock, 3.01, until=lambda: len(looks) > seen + 1)
        stall = await reported.get()

    assert (stall.starved, stall.stack) == (True, "")
    assert (watchdog.stalls, watchdog.starvations) == (0, 1)
    assert [record.message for record in caplog.records] == ["the event loop was starved of CPU"]


async def test_code_that_blocks_after_starvation_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    starving = [True, True]

    def cpu() -> CpuTimes:
        if clock.now and starving:
            starving.pop()
            return CpuTimes(used=1.0, waited=clock.now, is_runnable=True)
        return CpuTimes(used=1.0, waited=0.0, is_runnable=False)

    async with LoopWatchdog(threshold=0.02, now=clock, cpu=cpu):
        grind(clock, 3, until=lambda: caplog.records)

        (record,) = caplog.records
        assert record.message == "the event loop is blocked"
        assert "in grind" in stack_of(record)
