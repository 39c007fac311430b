"""Whether a late thread was starved of CPU."""

import threading
import time

import pytest

from gpuruntime.control.watchdog.thread_cpu import CpuTimes, ThreadCpu

BEFORE = CpuTimes(used=5.0, waited=2.0, is_runnable=False)


@pytest.mark.parametrize(
    ("used", "waited", "runnable", "starved"),
    [
        (5.05, 2.9, False, True),
        (5.05, 2.1, False, False),
        (5.05, 2.0, True, True),
        (5.9, 2.0, True, False),
        (5.9, 5.0, True, False),
        (5.0, 2.0, False, False),
    ],
    ids=["waited", "slept", "waits still", "computes", "computed for long on a busy machine", "sleeps"],
)
def test_a_thread_is_starved_if_it_was_runnable_and_got_no_cpu(
    used: float, waited: float, runnable: bool, starved: bool
) -> None:
    times = CpuTimes(used, waited, runnable)

    assert times.starved_since(BEFORE, late=1.0, busy=0.4) is starved


def test_the_kernel_provides_the_times_of_the_creating_thread() -> None:
    cpu = ThreadCpu()
    before = cpu.read()
    sum(range(1_000_000))
    after = cpu.read()

    assert before is not None
    assert after is not None
    assert after.used > before.used
    assert after.is_runnable


def test_a_thread_that_has_ended_has_no_times() -> None:
    cpus: list[ThreadCpu] = []
    thread = threading.Thread(target=lambda: cpus.append(ThreadCpu()))
    thread.start()
    thread.join()
    # The kernel forgets the thread a moment after Python does; there is no event to await.
    for _ in range(1000):
        if cpus[0].read() is None:
            break
        time.sleep(0.001)

    assert cpus[0].read() is None
