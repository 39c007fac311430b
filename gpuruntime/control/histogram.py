"""A histogram of plain numbers, cheap enough for hot paths."""

from bisect import bisect_left
from itertools import accumulate
from typing import Final

__all__ = ["REQUEST_BUCKETS", "Histogram"]

REQUEST_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Default latency buckets, in seconds."""


class Histogram:
    """Counts durations in buckets; `bounds` are their upper bounds in seconds, ascending."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self._bounds, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Cumulative buckets as Prometheus expects them: each counts all values up to its bound."""
        names = (*map(repr, self._bounds), "+Inf")
        return list(zip(names, accumulate(map(float, self.counts)), strict=True))
