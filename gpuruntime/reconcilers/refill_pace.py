"""How fast a pool may make stock: a burst at first, then so many a second."""

from collections.abc import Callable

from attrs import field, frozen
from attrs.validators import ge, gt

from gpuruntime.meta import ObjectKey

__all__ = ["Pace", "RefillPace"]


@frozen
class Pace:
    """`burst` units at once, and `per_second` more with every second that passes."""

    burst: int = field(default=10, validator=ge(1))
    per_second: float = field(default=10.0, validator=gt(0))


class RefillPace:
    """Keeps each pool to its pace, by the local clock. A process that starts anew grants a burst anew."""

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace = pace
        self._clock = clock
        self._left: dict[ObjectKey, tuple[float, float]] = {}

    def allowance(self, pool: ObjectKey) -> int:
        """How many units the pool may make now."""
        return int(self._tokens(pool))

    def spend(self, pool: ObjectKey, units: int) -> None:
        """Note that so many were made."""
        self._left[pool] = (self._tokens(pool) - units, self._clock())

    def wait(self, pool: ObjectKey) -> float:
        """Seconds until the pool may make the next one; never 0."""
        return max(0.05, (1 - self._tokens(pool)) / self._pace.per_second)

    def forget(self, pool: ObjectKey) -> None:
        self._left.pop(pool, None)

    def _tokens(self, pool: ObjectKey) -> float:
        known = self._left.get(pool)
        if known is None:
            return float(self._pace.burst)
        tokens, then = known
        return min(float(self._pace.burst), tokens + (self._clock() - then) * self._pace.per_second)
