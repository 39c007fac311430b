"""Clocks."""

import time

__all__ = ["seconds_since_boot"]


def seconds_since_boot() -> float:
    """A monotonic clock that, where the platform has one, counts while the machine is suspended."""
    # Python's monotonic clock stops during a suspend on Linux: a laptop, or a migrated virtual machine, would wake up
    # and assume that it still leads.
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
