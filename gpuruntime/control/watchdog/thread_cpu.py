"""What the kernel knows of one thread: whether it computed, slept, or waited for a CPU."""

import threading
from pathlib import Path
from typing import Final

from attrs import frozen

__all__ = ["CpuTimes", "ThreadCpu"]

_TASKS: Final = Path("/proc/self/task")
_NANOSECOND: Final = 1e-9


@frozen
class CpuTimes:
    """Seconds that a thread computed, and that it was ready to and got no CPU; and whether it is ready now."""

    used: float
    waited: float
    is_runnable: bool

    def starved_since(self, earlier: "CpuTimes", late: float, busy: float) -> bool:
        """Whether a thread that is `late` seconds late is so for want of a CPU, more than for anything else.

        One that computed for more than `busy` seconds has itself to blame.
        """
        used, waited = self.used - earlier.used, self.waited - earlier.waited
        if used > busy:
            return False
        # A wait is counted when it ends: one that goes on shows as a thread that is ready and has not computed.
        return waited > late / 2 or (self.is_runnable and used < late / 2)


class ThreadCpu:
    """The times of the thread that makes it, on Linux; readable from any thread."""

    def __init__(self) -> None:
        self._directory = _TASKS / str(threading.get_native_id())

    def read(self) -> CpuTimes | None:
        """The times so far; None where the kernel does not say."""
        try:
            used, waited, *_ = map(int, (self._directory / "schedstat").read_text().split())
            state = (self._directory / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return None
        # A kernel without these figures shows zeros.
        return CpuTimes(used * _NANOSECOND, waited * _NANOSECOND, state == "R") if used else None
