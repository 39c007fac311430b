"""The rate at which a pool may create stock units: a token bucket with a burst."""

from collections.abc import Callable

from attrs import field, frozen
from attrs.validators import ge, gt

from gpuruntime.meta import ObjectKey

__all__ = ["Pace", "RefillPace"]


@frozen
class Pace:
    """`burst` units at once, then `per_second`."""

    burst: int = field(default=10, validator=ge(1))
    per_second: float = field(default=10.0, validator=gt(0))


class RefillPace:
    """A token bucket for each pool, by the local clock. A restart of the process refills the buckets."""

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace = pace
        self._clock = clock
        self._left: dict[ObjectKey, tuple[float, float]] = {}

    def allowance(self, pool: ObjectKey) -> int:
        """Number of units that the pool may create now."""
        return int(self._tokens(pool))

    def spend(self, pool: ObjectKey, units: int) -> None:
        """Take tokens for units that were created."""
        self._left[pool] = (self._tokens(pool) - units, self._clock())

    def wait(self, pool: ObjectKey) -> float:
        """Seconds until the pool may create the next one; never 0."""
        return max(0.05, (1 - self._tokens(pool)) / self._pace.per_second)

    def forget(self, pool: ObjectKey) -> None:
        self._left.pop(pool, None)

    def _tokens(self, pool: ObjectKey) -> float:
        known = self._left.get(pool)
        if known is None:
            return float(self._pace.burst)
        tokens, then = known
        return min(float(self._pace.burst), tokens + (self._clock() - then) * self._pace.per_second)
