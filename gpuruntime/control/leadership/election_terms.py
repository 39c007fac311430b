"""The timing of an election, and the term of a leader."""

from datetime import datetime

from attrs import frozen

__all__ = ["ElectionTiming", "Term"]


@frozen
class ElectionTiming:
    """Lease duration, renew deadline and retry period, in seconds, as in client-go.

    The time between `renew` and `lease` is for writes that are in flight when a leader stops, and for clocks that run
    at different speeds.
    """

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0

    def __attrs_post_init__(self) -> None:
        # leaseDurationSeconds is an integer: other candidates would not see a fraction.
        if type(self.lease) is not int:
            raise ValueError(f"lease duration {self.lease!r}: expected whole seconds as an int")
        if not (self.lease > self.renew > 1.2 * self.retry > 0):
            raise ValueError(
                f"lease {self.lease:g} s, renew {self.renew:g} s, retry {self.retry:g} s: expected "
                "lease > renew > 1.2 * retry > 0, so that a leader can retry, and stop before another one leads"
            )

    @property
    def attempt(self) -> float:
        """The timeout of one attempt, which leaves time for another one."""
        return max(1.0, self.renew / 2)


@frozen
class Term:
    """One term of leadership: the leader, the transitions of the lease as its number, and when it was acquired."""

    identity: str
    number: int
    acquired_at: datetime
