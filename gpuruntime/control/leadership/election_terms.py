"""The times of an election, and what a winner is told."""

from datetime import datetime

from attrs import frozen

__all__ = ["ElectionTiming", "Term"]


@frozen
class ElectionTiming:
    """How long, in seconds, a lease lasts, a leader may try to renew it, and a candidate waits between two tries.

    The time between `renew` and `lease` is for writes that are still on their way when a leader gives up, and for
    clocks that do not run equally fast.
    """

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0

    def __attrs_post_init__(self) -> None:
        # A Lease tells its duration in whole seconds: a fraction would be lost on the others.
        if type(self.lease) is not int:
            raise ValueError(f"lease duration {self.lease!r}: expected whole seconds as an int")
        if not (self.lease > self.renew > 1.2 * self.retry > 0):
            raise ValueError(
                f"lease {self.lease:g} s, renew {self.renew:g} s, retry {self.retry:g} s: expected "
                "lease > renew > 1.2 * retry > 0, so that a leader has time to try again and to stop before others lead"
            )

    @property
    def attempt(self) -> float:
        """How long one try may take, so that there is time for another."""
        return max(1.0, self.renew / 2)


@frozen
class Term:
    """One term of leadership: who leads, how often the lease had changed hands by then, and since when it is ours."""

    identity: str
    number: int
    acquired_at: datetime
