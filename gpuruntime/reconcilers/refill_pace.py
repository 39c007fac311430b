"""The rate at which a pool or a function may create units: a token bucket with a burst."""

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
    """A token bucket for each pool or function, by the local clock. A restart of the process refills the buckets."""

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace = pace
        self._clock = clock
        self._left: dict[ObjectKey, tuple[float, float]] = {}

    def allowance(self, maker: ObjectKey) -> int:
        """Number of units that the maker may create now."""
        return int(self._tokens(maker))

    def spend(self, maker: ObjectKey, units: int) -> None:
        """Take tokens for units that were created."""
        self._left[maker] = (self._tokens(maker) - units, self._clock())

    def wait(self, maker: ObjectKey) -> float:
        """Seconds until the maker may create the next one; never 0."""
        return max(0.05, (1 - self._tokens(maker)) / self._pace.per_second)

    def forget(self, maker: ObjectKey) -> None:
        self._left.pop(maker, None)

    def _tokens(self, maker: ObjectKey) -> float:
        known = self._left.get(maker)
        if known is None:
            return float(self._pace.burst)
        tokens, then = known
        return min(float(self._pace.burst), tokens + (self._clock() - then) * self._pace.per_second)
