"""How far the archive is behind RESULTS, in seconds, by one clock.

The times of messages are those of NATS, whose clock may differ from that of this process. So the lag is the age of the
last look at RESULTS after which everything that was in it then has been archived.
"""

from collections import deque

__all__ = ["ArchiveLag"]


class ArchiveLag:
    """The lag as of the last looks. Without looks, while NATS is away, it grows."""

    def __init__(self, now: float) -> None:
        self._caught_up = now
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now: float, last_sequence: int, archived_sequence: int, *, is_empty: bool) -> None:
        """RESULTS ends with one sequence, and all up to another are archived. `is_empty`: nothing waits at all."""
        if is_empty:
            self._caught_up = now
            self._looks.clear()
            return
        if self._looks and self._looks[-1][1] == last_sequence:
            self._looks.pop()
        self._looks.append((now, last_sequence))
        while self._looks and self._looks[0][1] <= archived_sequence:
            self._caught_up, _ = self._looks.popleft()

    def seconds(self, now: float) -> float:
        """The lag at this time."""
        return max(0.0, now - self._caught_up)
