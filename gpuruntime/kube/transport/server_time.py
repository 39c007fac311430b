"""The API server's time, which all replicas share whatever their own clocks show."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from gpuruntime.kube.transport.retry_after import parse_http_date

__all__ = ["ServerTime"]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ServerTime:
    """The time of the API server's clock, from the Date header of its responses.

    Guarantees: `known` never depends on the wall clock of this machine. Between two responses it advances by a
    monotonic clock.

    Caveats:
        It is behind by up to a second, the resolution of the header, and by the latency of the response. The Date
        header of a proxy in front of the API server is trusted.
    """

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, local: Callable[[], datetime] = _utc_now
    ) -> None:
        self._monotonic = monotonic
        self._local = local
        self._last: tuple[str, float] | None = None

    def note(self, date: str) -> None:
        """Note the Date header of a response that has just arrived; "" if it has none."""
        if date:
            # Parsed when it is read: there are many more responses than reads.
            self._last = date, self._monotonic()

    @property
    def known(self) -> datetime | None:
        """The server's time; None before the first response with a date."""
        if self._last is None:
            return None
        date, noted = self._last
        then = parse_http_date(date)
        return None if then is None else then + timedelta(seconds=self._monotonic() - noted)

    def now(self) -> datetime:
        """The server's time, or the local time before the first response: for timestamps that people read."""
        return self.known or self._local()
