"""Connection counters of an HTTP site."""

from collections.abc import Sized
from typing import Final

__all__ = ["ConnectionCounters"]

_REFUSALS: Final = ("address", "descriptors", "total")
_PHASES: Final = ("handshake", "head", "send")


class ConnectionCounters:
    """What happened to connections since the start, and how many are open."""

    __slots__ = ("_open", "evicted", "limit", "refusals", "timeouts")

    def __init__(self) -> None:
        self._open: Sized = ()
        self.limit = 0
        self.evicted = 0
        self.refusals = dict.fromkeys(_REFUSALS, 0)
        self.timeouts = dict.fromkeys(_PHASES, 0)

    @property
    def current(self) -> int:
        """The number of open connections."""
        return len(self._open)

    def watch(self, connections: Sized, limit: int) -> None:
        """Count the open connections in this container, of which there may be `limit`."""
        self._open, self.limit = connections, limit

    def refused(self, reason: str) -> None:
        self.refusals[reason] += 1

    def timed_out(self, phase: str) -> None:
        self.timeouts[phase] += 1
