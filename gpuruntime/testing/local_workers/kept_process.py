"""A process that is kept running as a kubelet keeps a container: restarted when it ends, later and later."""

import asyncio
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from attrs import field, frozen

from gpuruntime.aio.backoff import Backoff, BackoffSchedule
from gpuruntime.kube.builtin.containers import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
)
from gpuruntime.meta.timestamps import format_seconds
from gpuruntime.testing.local_workers.host_processes import HostProcess
from gpuruntime.testing.processes.supervised import SupervisorError

__all__ = ["RESTARTS", "KeptProcess", "Observed"]

RESTARTS: Final = BackoffSchedule(base=1.0, factor=2.0, cap=30.0, reset=60.0)
"""Seconds between the second end in a row and its restart: the kubelet's rule, ten times as fast."""

_MESSAGE_BYTES: Final = 2048
_CREATING: Final = ContainerState(waiting=ContainerStateWaiting("ContainerCreating"))


@frozen
class Observed:
    """What the status of a container says of its process."""

    state: ContainerState = _CREATING
    last_state: ContainerState = field(default=ContainerState())
    restarts: int = 0

    @property
    def is_running(self) -> bool:
        return self.state.running is not None


class KeptProcess:
    """One process at a time, started anew when it ends.

    Guarantees:
        The first restart is at once, later ones wait. `changed` is called after each change of `observed`. After `stop`
        nothing is started.

    Caveats:
        The owner runs `run` as a task of its own, and calls `stop` or ends the process itself: cancelling `run` leaves
        the process running.
    """

    def __init__(
        self,
        start: Callable[[], HostProcess],
        log: Path,
        changed: Callable[[], None],
        *,
        restarts: int = 0,
        schedule: BackoffSchedule = RESTARTS,
    ) -> None:
        """Start the process with `start`, whose output goes to `log`. `restarts` is how often it was started before."""
        self._start = start
        self._log = log
        self._changed = changed
        self._backoff = Backoff(schedule)
        self._schedule = schedule
        self._last_end = float("-inf")
        self._process: HostProcess | None = None
        self._stopped = asyncio.Event()
        self.observed = Observed(restarts=restarts)

    async def run(self) -> None:
        """Keep it running until `stop`."""
        while not self._stopped.is_set():
            began = self._log.stat().st_size if self._log.exists() else 0
            try:
                self._process = self._start()
            except SupervisorError as error:
                self._see(ContainerState(waiting=ContainerStateWaiting("RunContainerError", str(error))))
            else:
                started = _now()
                self._see(ContainerState(running=ContainerStateRunning(started)))
                code = await self._process.wait()
                ended = ContainerState(terminated=_ending(code, started, self._said(began)))
                self._see(ended)
                if self._stopped.is_set():
                    return
                waiting = ContainerState(waiting=ContainerStateWaiting("CrashLoopBackOff", "back-off after its end"))
                self._see(waiting, last=ended)
            await asyncio.sleep(self._delay())
            self._count()

    async def stop(self, within: float) -> None:
        """End it with SIGTERM, and with SIGKILL if it has not ended after `within` seconds; at once if that is 0."""
        self._stopped.set()
        process = self._process
        if process is None:
            return
        process.send(signal.SIGTERM if within > 0 else signal.SIGKILL)
        try:
            async with asyncio.timeout(max(0.0, within)):
                await process.wait()
        except TimeoutError:
            process.send(signal.SIGKILL)
            await process.wait()

    def kill(self) -> None:
        """Send SIGKILL; it is restarted, unless it is being stopped."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)

    def _delay(self) -> float:
        """The first end after a quiet time costs nothing, as with the kubelet."""
        now = asyncio.get_running_loop().time()
        is_first = now - self._last_end > self._schedule.reset
        self._last_end = now
        return 0.0 if is_first else self._backoff.next(now)

    def _count(self) -> None:
        old = self.observed
        self.observed = Observed(old.state, old.last_state, old.restarts + 1)

    def _see(self, state: ContainerState, last: ContainerState | None = None) -> None:
        old = self.observed
        self.observed = Observed(state, old.last_state if last is None else last, old.restarts)
        self._changed()

    def _said(self, began: int) -> str:
        """The end of what it printed since its start."""
        with self._log.open("rb") as output:
            output.seek(max(began, self._log.stat().st_size - _MESSAGE_BYTES))
            return output.read().decode(errors="replace").strip()


def _ending(code: int, started: str, said: str) -> ContainerStateTerminated:
    # The kubelet says 128 + the number of the signal, as shells do.
    shown = code if code >= 0 else 128 - code
    reason = "Completed" if shown == 0 else "Error"
    # The policy FallbackToLogsOnError.
    message = said if shown else ""
    return ContainerStateTerminated(shown, None, reason, message or None, started, _now())


def _now() -> str:
    return format_seconds(datetime.now(UTC))
