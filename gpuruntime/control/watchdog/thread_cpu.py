"""CPU times of a thread from the kernel's scheduler statistics: running and waiting for a CPU."""

import threading
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["CpuTimes", "ThreadCpu"]

_TASKS: Final = Path("/proc/self/task")
_NANOSECOND: Final = 1e-9


@frozen
class CpuTimes:
    """Seconds that a thread ran and that it waited for a CPU while runnable; and whether it is runnable now."""

    used: float
    waited: float
    is_runnable: bool

    def starved_since(self, earlier: "CpuTimes", late: float, busy: float) -> bool:
        """Whether a thread that is `late` seconds late is so mainly because it got no CPU.

        A thread that ran for more than `busy` seconds is late because of its own work.
        """
        used, waited = self.used - earlier.used, self.waited - earlier.waited
        if used > busy:
            return False
        # The kernel counts a wait when it ends. During a wait the thread is runnable and has hardly run.
        return waited > late / 2 or (self.is_runnable and used < late / 2)


class ThreadCpu:
    """Reads the CPU times of the thread that creates it, on Linux; `read` may be called from any thread."""

    def __init__(self) -> None:
        self._directory = _TASKS / str(threading.get_native_id())

    def read(self) -> CpuTimes | None:
        """The times so far; None if the kernel does not provide them."""
        try:
            used, waited, *_ = map(int, (self._directory / "schedstat").read_text().split())
            state = (self._directory / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return None
        # A kernel without scheduler statistics shows zeros.
        return CpuTimes(used * _NANOSECOND, waited * _NANOSECOND, state == "R") if used else None
