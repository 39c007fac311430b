"""The event loop watchdog: detects that the loop is blocked, and logs the stack that blocks it."""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

from attrs import evolve, frozen

from gpuruntime.control.watchdog.thread_cpu import CpuTimes, ThreadCpu

__all__ = ["LoopWatchdog", "Stall"]

_LOG = logging.getLogger(__name__)
_FRAMES_KEPT: Final = 8


@frozen
class Stall:
    """A period in which the loop did not run its due callbacks."""

    seconds: float
    stack: str
    """The innermost frames of the loop's thread during the stall, as a traceback. Empty if they could not be sampled,
    because the process was stopped or native code held the GIL, and if `starved`."""
    starved: bool = False
    """Whether the thread was runnable and got no CPU: then nothing blocked the loop."""


class _Beat(NamedTuple):
    number: int
    at: float
    cpu: CpuTimes | None


class LoopWatchdog:
    """Watches the loop that its `async with` block runs in.

    Guarantees:
        - A stall, that is the loop being late by more than `threshold` seconds, is counted and logged. The blocking
          stack is logged from a thread during the stall, once per stall, so even if it never ends. The duration is
          logged afterwards and passed to `on_stall`, which is called in the loop.
        - On Linux, a loop that is late because its thread got no CPU is counted and logged as CPU starvation, without a
          stack.
        - The thread has ended when the block is left.

    Caveats:
        - A stall that is the sum of many short callbacks shows the stack of the one that ran when it was sampled.
        - A debugger or a stopped process (SIGSTOP) shows up as a stall.
    """

    def __init__(
        self,
        threshold: float = 0.25,
        *,
        now: Callable[[], float] = time.monotonic,
        on_stall: Callable[[Stall], None] | None = None,
        cpu: Callable[[], CpuTimes | None] | None = None,
    ) -> None:
        """`cpu` returns the CPU times of the loop's thread, by default those of the kernel."""
        if not threshold > 0:
            raise ValueError(f"LoopWatchdog threshold: expected more than 0 seconds, got {threshold}")
        self.stalls = 0
        self.starvations = 0
        self.longest_seconds = 0.0
        self._threshold = threshold
        self._period = threshold / 2
        self._now = now
        self._on_stall = on_stall
        self._cpu = cpu
        # None outside the block. Only the loop's thread sets it. The lock orders a new beat before or after the other
        # thread's check that the sampled stack still belongs to the current beat.
        self._beat: _Beat | None = None
        self._lock = threading.Lock()
        self._seen = ""
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("the watchdog was already used: create a new one for each block")
        loop = asyncio.get_running_loop()
        self._cpu = self._cpu or ThreadCpu().read
        self._thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="loop watchdog", daemon=True
        )
        # `start` waits for the thread, so the first beat comes after it.
        self._thread.start()
        self._beat = _Beat(0, self._now(), self._cpu_times())
        self._timer = loop.call_later(self._period, self._tick, loop, self._beat)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._timer is not None and self._thread is not None  # noqa: PT018, S101 - the block was entered
        self._timer.cancel()
        self._stop.set()
        self._thread.join()
        late, beat, self._beat = self.lateness, self._beat, None
        if beat is not None:
            self._record(late or 0.0, self._seen, starved=self._is_starved(beat, self._own_cpu_times(), late or 0.0))

    @property
    def lateness(self) -> float | None:
        """By how many seconds the loop is late now; None if it is not watched. Thread-safe."""
        beat = self._beat
        return None if beat is None else max(0.0, self._now() - self._due(beat))

    def _due(self, beat: _Beat) -> float:
        """When the beat after this one is due."""
        return beat.at + self._period

    def _tick(self, loop: asyncio.AbstractEventLoop, last: _Beat) -> None:
        beat = _Beat(last.number + 1, self._now(), self._own_cpu_times())
        with self._lock:
            self._beat = beat
            stack, self._seen = self._seen, ""
        self._timer = loop.call_later(self._period, self._tick, loop, beat)
        late = beat.at - self._due(last)
        self._record(late, stack, starved=self._is_starved(last, beat.cpu, late))

    def _record(self, late: float, stack: str, *, starved: bool) -> None:
        if late <= self._threshold:
            return
        stall = Stall(late, "" if starved else stack, starved)
        self.longest_seconds = max(self.longest_seconds, stall.seconds)
        about = {"seconds": round(stall.seconds, 3)}
        if starved:
            self.starvations += 1
            _LOG.warning("the event loop was starved of CPU", extra=about)
        else:
            self.stalls += 1
            _LOG.warning("the event loop was blocked", extra={**about, "stack": stall.stack or "unknown"})
        if self._on_stall is not None:
            self._on_stall(stall)

    def _watch(self, loop_thread: int) -> None:
        """The main function of the thread."""
        sampled: _Beat | None = None
        while not self._stop.is_set():
            beat = self._beat
            if beat is None or beat == sampled:
                self._stop.wait(self._period)
                continue
            began = self._now()
            remaining = self._due(beat) + self._threshold - began
            if remaining <= 0:
                if self._is_starved(beat, self._cpu_times(), began - self._due(beat)):
                    # Its current stack is not the cause. It may still block once it gets a CPU.
                    self._stop.wait(self._threshold)
                    continue
                sampled = beat
                self._sample(beat, loop_thread)
                continue
            self._stop.wait(remaining)
            if self._now() - began > remaining + self._threshold:
                # This thread is late, too: what delayed it delayed the loop as well, so let the loop catch up.
                self._stop.wait(self._threshold)

    def _cpu_times(self) -> CpuTimes | None:
        return None if self._cpu is None else self._cpu()

    def _own_cpu_times(self) -> CpuTimes | None:
        """CPU times read by the loop's thread itself, which is always runnable while it reads them."""
        times = self._cpu_times()
        return None if times is None else evolve(times, is_runnable=False)

    def _is_starved(self, beat: _Beat, times: CpuTimes | None, late: float) -> bool:
        # CPU time used before the next beat was due did not delay that beat.
        busy = self._threshold + self._period
        return times is not None and beat.cpu is not None and times.starved_since(beat.cpu, late, busy)

    def _sample(self, beat: _Beat, loop_thread: int) -> None:
        """Log the stack of the loop's thread, unless the loop has moved on meanwhile."""
        frame = sys._current_frames().get(loop_thread)  # noqa: SLF001 - the documented way to see another thread
        if frame is None:
            return  # the thread ended without leaving the block
        innermost = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=_FRAMES_KEPT)
        # A frame keeps the local variables of the blocking code alive.
        del frame
        innermost.reverse()
        stack = "".join(innermost.format())
        with self._lock:
            if self._beat != beat:
                return
            self._seen = stack
        _LOG.warning(
            "the event loop is blocked", extra={"seconds": round(self._now() - self._due(beat), 3), "stack": stack}
        )
