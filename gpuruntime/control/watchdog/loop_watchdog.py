"""A watchdog of the event loop: notices that something blocks it, and names what."""

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
    """A time in which the loop ran nothing that was due."""

    seconds: float
    stack: str
    """The innermost frames of the loop's thread as a traceback shows them, seen during the stall. Empty if nobody could
    look: the whole process was stopped, or foreign code kept the interpreter to itself; and if no code is to blame."""
    starved: bool = False
    """Whether the thread was ready to go on and got no CPU: then nothing blocked the loop."""


class _Beat(NamedTuple):
    number: int
    at: float
    cpu: CpuTimes | None


class LoopWatchdog:
    """Watches the loop that its `async with` block runs in.

    Guarantees:
        - A stall, the loop being late by more than `threshold` seconds, is counted and logged. What blocks is logged
          while it does, from a thread, so also if it never ends; once for each stall. How long it was is logged
          afterwards, and told to `on_stall`, which is called in the loop.
        - A loop that is late because its thread got no CPU is counted and logged as that, and no code is blamed. That
          is known on Linux.
        - The thread is gone when the block is left.

    Caveats:
        - A stall that is the sum of many short callbacks is blamed on the one that ran when the watchdog looked.
        - In a debugger, or after a stopped process goes on, the loop is as late as any.
    """

    def __init__(
        self,
        threshold: float = 0.25,
        *,
        now: Callable[[], float] = time.monotonic,
        on_stall: Callable[[Stall], None] | None = None,
        cpu: Callable[[], CpuTimes | None] | None = None,
    ) -> None:
        """Watch with a threshold; `cpu` gives the times of the loop's thread, the kernel's by default."""
        if not threshold > 0:
            raise ValueError(f"expected a threshold of more than 0 seconds, got {threshold}")
        self.stalls = 0
        self.starvations = 0
        self.longest_seconds = 0.0
        self._threshold = threshold
        self._period = threshold / 2
        self._now = now
        self._on_stall = on_stall
        self._cpu = cpu
        # None before the block and after it. Only the loop's thread sets it, and the lock orders a new beat before or
        # after the other thread's "still the same beat, so this is its stack".
        self._beat: _Beat | None = None
        self._lock = threading.Lock()
        self._seen = ""
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._thread: threading.Thread | None = None

    async def __aenter__(self) -> Self:
        if self._thread is not None:
            raise RuntimeError("the watchdog has been used: make a new one for each block")
        loop = asyncio.get_running_loop()
        self._cpu = self._cpu or ThreadCpu().read
        self._thread = threading.Thread(
            target=self._watch, args=(threading.get_ident(),), name="loop watchdog", daemon=True
        )
        # Waits for the thread, so the first beat comes after it.
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
            self._note(late or 0.0, self._seen, starved=self._is_starved(beat, self._own_cpu_times(), late or 0.0))

    @property
    def lateness(self) -> float | None:
        """By how many seconds the loop is late now; None if it is not watched. May be asked in any thread."""
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
        self._note(late, stack, starved=self._is_starved(last, beat.cpu, late))

    def _note(self, late: float, stack: str, *, starved: bool) -> None:
        if late <= self._threshold:
            return
        stall = Stall(late, "" if starved else stack, starved)
        self.longest_seconds = max(self.longest_seconds, stall.seconds)
        about = {"seconds": round(stall.seconds, 3)}
        if starved:
            self.starvations += 1
            _LOG.warning("the event loop got no CPU: the machine or the container lacks it", extra=about)
        else:
            self.stalls += 1
            _LOG.warning("the event loop was blocked", extra={**about, "stack": stall.stack or "not seen"})
        if self._on_stall is not None:
            self._on_stall(stall)

    def _watch(self, loop_thread: int) -> None:
        """What the thread does."""
        looked_at: _Beat | None = None
        while not self._stop.is_set():
            beat = self._beat
            if beat is None or beat == looked_at:
                self._stop.wait(self._period)
                continue
            began = self._now()
            patience = self._due(beat) + self._threshold - began
            if patience <= 0:
                if self._is_starved(beat, self._cpu_times(), began - self._due(beat)):
                    # Whatever line it stands at is innocent. It may be blocked once it has a CPU.
                    self._stop.wait(self._threshold)
                    continue
                looked_at = beat
                self._look(beat, loop_thread)
                continue
            self._stop.wait(patience)
            if self._now() - began > patience + self._threshold:
                # Late ourselves: whatever held us up held up the loop as well, so it gets a chance to catch up.
                self._stop.wait(self._threshold)

    def _cpu_times(self) -> CpuTimes | None:
        return None if self._cpu is None else self._cpu()

    def _own_cpu_times(self) -> CpuTimes | None:
        """As the loop's thread sees itself: that it is ready while it looks says nothing."""
        times = self._cpu_times()
        return None if times is None else evolve(times, is_runnable=False)

    def _is_starved(self, beat: _Beat, times: CpuTimes | None, late: float) -> bool:
        # What it did before the next beat was due is no delay of that.
        busy = self._threshold + self._period
        return times is not None and beat.cpu is not None and times.starved_since(beat.cpu, late, busy)

    def _look(self, beat: _Beat, loop_thread: int) -> None:
        """Log what the loop's thread does, unless it went on meanwhile."""
        frame = sys._current_frames().get(loop_thread)  # noqa: SLF001 - the documented way to see another thread
        if frame is None:
            return  # it has ended without leaving the block
        innermost = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=_FRAMES_KEPT)
        # It would keep alive the variables of whatever blocks.
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
