"""How long a key that failed waits for its next try."""

import math

from attrs import field, frozen

__all__ = ["RateLimits"]


def _above_base(limits: "RateLimits", attribute: object, value: float) -> None:
    del attribute
    if not (0 < limits.base <= value < math.inf):
        raise ValueError(f"rate limits need 0 < base <= cap, both finite: got base={limits.base}, cap={value}")


def _share(limits: "RateLimits", attribute: object, value: float) -> None:
    del limits, attribute
    if not 0 <= value <= 1:
        raise ValueError(f"the jitter of rate limits is a share of the delay: expected 0 to 1, got {value}")


@frozen
class RateLimits:
    """Exponential delays for one key: `base` seconds, doubled by each failure in a row, `cap` seconds at most.

    `jitter` is the share of a delay that chance may take away: 0 takes nothing, 1 leaves anything down to no delay at
    all. It never adds, so `cap` is a promise.
    """

    base: float = 0.005
    cap: float = field(default=1000.0, validator=_above_base)
    jitter: float = field(default=0.0, validator=_share)

    def delay(self, failures: int, chance: float = 0.0) -> float:
        """The seconds to wait after so many earlier failures; `chance` (0 to 1) is how much of the jitter acts."""
        try:
            full = min(math.ldexp(self.base, failures), self.cap)
        except OverflowError:
            full = self.cap
        return full * (1 - self.jitter * chance)
