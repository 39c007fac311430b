"""Clocks."""

import time

__all__ = ["seconds_since_boot"]


def seconds_since_boot() -> float:
    """A clock that never goes back and, where the platform has such a clock, runs on while the machine is suspended."""
    # Python's monotonic clock stands still during a suspend on Linux: a laptop, or a migrated virtual machine, would
    # wake up and believe that it still leads.
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
