"""How long to wait after a failure: longer each time, never in step with others, short again after a quiet spell."""

from random import Random

from attrs import frozen

__all__ = ["Backoff", "BackoffSchedule"]


@frozen
class BackoffSchedule:
    """Delays from `base` seconds on, growing by `factor` up to `cap`; `quiet` seconds without a failure reset them."""

    base: float
    factor: float
    cap: float
    quiet: float


class Backoff:
    """The delays of one endeavour.

    Guarantees:
        A delay lies between the schedule's base and the delay that is due, evenly spread, so that neither a single
        client nor many of them in step can hammer a server. A success alone resets nothing: a server that flaps is
        given as much rest as one that is down.
    """

    def __init__(self, schedule: BackoffSchedule, random: Random | None = None) -> None:
        self._schedule = schedule
        self._random = random or Random()
        self._due = schedule.base
        self._last = float("-inf")

    def next(self, now: float) -> float:
        """The seconds to wait after a failure at the time `now`."""
        schedule = self._schedule
        if now - self._last > schedule.quiet:
            self._due = schedule.base
        due = self._due
        self._due = min(due * schedule.factor, schedule.cap)
        delay = self._random.uniform(schedule.base, due)
        # Time spent waiting is no quiet spell.
        self._last = now + delay
        return delay
