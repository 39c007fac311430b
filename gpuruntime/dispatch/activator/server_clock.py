"""The clock of NATS: all ages and deadlines of invocations are measured by it, never by the clock of this machine."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

__all__ = ["ServerClock"]


class ServerClock:
    """The time of the server, between two answers of it carried on by a monotonic clock.

    Caveats:
        Before the first answer it is the clock of this machine.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._origin: datetime | None = None

    @property
    def is_known(self) -> bool:
        """Whether the server has answered."""
        return self._origin is not None

    def observe(self, server_time: datetime) -> None:
        """Take the time of an answer that has just come."""
        self._origin = server_time - timedelta(seconds=self._monotonic())

    def now(self) -> datetime:
        """The time of the server."""
        if self._origin is None:
            return datetime.now(UTC)
        return self._origin + timedelta(seconds=self._monotonic())
