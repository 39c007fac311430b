"""Counters of a work queue, kept as plain numbers and turned into samples at scrape time."""

from itertools import accumulate, repeat
from operator import mul
from typing import Final

from gpuruntime.control.histogram import Histogram

__all__ = ["DURATION_BUCKETS", "PRIORITY_LIMIT", "QueueCounters"]

# 10 ns to 1000 s. Multiplied up as Go does it, rounding included ("9.999999999999999e-06"): the bounds are label
# values, and buckets of our controllers must add up with those of controllers in Go.
DURATION_BUCKETS: Final = tuple(accumulate(repeat(10.0, 11), mul, initial=1e-8))

PRIORITY_LIMIT: Final = 25
"""The number of distinct priorities that are counted apart."""


class QueueCounters:
    """What one queue counts.

    Guarantees:
        Memory does not grow with the priorities in use: the first 25 are counted apart, the others together.
    """

    __slots__ = ("adds", "depth", "depth_of_others", "retries", "waited", "worked")

    def __init__(self) -> None:
        self.adds = 0
        self.retries = 0
        self.depth = {0: 0}
        self.depth_of_others = 0
        self.waited = Histogram(DURATION_BUCKETS)
        self.worked = Histogram(DURATION_BUCKETS)

    def count_depth(self, priority: int, change: int) -> None:
        """Count a key of this priority that became ready (1) or is no longer ready (-1)."""
        try:
            self.depth[priority] += change
        except KeyError:
            if len(self.depth) < PRIORITY_LIMIT:
                self.depth[priority] = change
            else:
                # A priority that was counted here once stays here, because `depth` never loses one.
                self.depth_of_others += change

    def total_depth(self) -> int:
        return sum(self.depth.values()) + self.depth_of_others
