"""Exponential backoff with jitter, reset after a period without failures."""

from random import Random

from attrs import frozen

__all__ = ["Backoff", "BackoffSchedule"]


@frozen
class BackoffSchedule:
    """Delays from `base` seconds, growing by `factor` up to `cap`; reset after `reset` seconds without a failure."""

    base: float
    factor: float
    cap: float
    reset: float


class Backoff:
    """The state of one backoff.

    Guarantees:
        A delay is uniformly distributed between the schedule's base and the current delay, so that neither a single
        client nor many synchronised ones overload a server. A success alone does not reset it: a flapping server gets
        the same delays as one that is down.
    """

    def __init__(self, schedule: BackoffSchedule, random: Random | None = None) -> None:
        self._schedule = schedule
        self._random = random or Random()
        self._due = schedule.base
        self._last = float("-inf")

    def next(self, now: float) -> float:
        """The seconds to wait after a failure at the time `now`."""
        schedule = self._schedule
        if now - self._last > schedule.reset:
            self._due = schedule.base
        due = self._due
        self._due = min(due * schedule.factor, schedule.cap)
        delay = self._random.uniform(schedule.base, due)
        # The time spent waiting does not count as time without failures.
        self._last = now + delay
        return delay
