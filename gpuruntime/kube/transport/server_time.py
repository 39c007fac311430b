"""The time by the API server's clock, which all replicas share whatever their own clocks say."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from gpuruntime.kube.transport.retry_after import parse_http_date

__all__ = ["ServerTime"]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ServerTime:
    """What the API server's clock shows, by the header Date of its answers.

    Guarantees: `known` never depends on the wall clock of this machine. Between two answers a monotonic clock counts
    on.

    Caveats:
        It is behind by up to a second, which the header does not show, and by the time that an answer takes. A proxy
        that puts a Date of its own into answers of the API server is believed.
    """

    def __init__(
        self, *, monotonic: Callable[[], float] = time.monotonic, local: Callable[[], datetime] = _utc_now
    ) -> None:
        self._monotonic = monotonic
        self._local = local
        self._heard: tuple[str, float] | None = None

    def note(self, date: str) -> None:
        """Take notice of the Date of an answer that has just come; "" is an answer without one."""
        if date:
            # Answers are many and questions are few: it is parsed by who asks.
            self._heard = date, self._monotonic()

    @property
    def known(self) -> datetime | None:
        """The server's time; None as long as no answer told it."""
        if self._heard is None:
            return None
        date, heard = self._heard
        then = parse_http_date(date)
        return None if then is None else then + timedelta(seconds=self._monotonic() - heard)

    def now(self) -> datetime:
        """The server's time, or that of this machine as long as no answer told it: for what people read."""
        return self.known or self._local()
