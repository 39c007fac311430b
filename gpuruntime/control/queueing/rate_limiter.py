"""Exponential backoff of a failing key."""

import math

from attrs import field, frozen

__all__ = ["RateLimiter"]


def _above_base(limits: "RateLimiter", attribute: object, value: float) -> None:
    del attribute
    if not (0 < limits.base <= value < math.inf):
        raise ValueError(f"RateLimiter: expected 0 < base <= cap, both finite, got base={limits.base}, cap={value}")


def _fraction(limits: "RateLimiter", attribute: object, value: float) -> None:
    del limits, attribute
    if not 0 <= value <= 1:
        raise ValueError(f"RateLimiter.jitter: expected a fraction of the delay, 0 to 1, got {value}")


@frozen
class RateLimiter:
    """Per-key exponential backoff: `base` seconds, doubled by each consecutive failure, `cap` seconds at most.

    `jitter` is the fraction of a delay that may be removed at random: with 0 a delay is exact, with 1 it is anything
    from zero to the full delay. Jitter never adds to a delay, so `cap` holds.
    """

    base: float = 0.005
    cap: float = field(default=1000.0, validator=_above_base)
    jitter: float = field(default=0.0, validator=_fraction)

    def delay(self, failures: int, chance: float = 0.0) -> float:
        """Seconds to wait after this number of earlier failures; `chance` (0 to 1) scales the jitter."""
        try:
            full = min(math.ldexp(self.base, failures), self.cap)
        except OverflowError:
            full = self.cap
        return full * (1 - self.jitter * chance)
