"""The delay before a key that failed is tried again."""

import math

from attrs import field, frozen

__all__ = ["RateLimiter"]


def _above_base(limiter: "RateLimiter", attribute: object, value: float) -> None:
    del attribute
    if not (0 < limiter.base <= value < math.inf):
        raise ValueError(f"RateLimiter: expected 0 < base <= cap, both finite, got base={limiter.base}, cap={value}")


def _share(limiter: "RateLimiter", attribute: object, value: float) -> None:
    del limiter, attribute
    if not 0 <= value <= 1:
        raise ValueError(f"RateLimiter.jitter: expected a share of the delay, 0 to 1, got {value}")


@frozen
class RateLimiter:
    """Exponential delays for one key: `base` seconds, doubled by each failure in a row, `cap` seconds at most.

    `jitter` is the share of a delay that is random: 0 is none, 1 is anything from no delay to the full one. It never
    adds to a delay, so that `cap` holds.
    """

    base: float = 0.005
    cap: float = field(default=1000.0, validator=_above_base)
    jitter: float = field(default=0.0, validator=_share)

    def delay(self, failures: int, chance: float = 0.0) -> float:
        """Seconds to wait after this number of failures; `chance`, 0 to 1, is how much of the jitter applies."""
        try:
            full = min(math.ldexp(self.base, failures), self.cap)
        except OverflowError:
            full = self.cap
        return full * (1 - self.jitter * chance)
