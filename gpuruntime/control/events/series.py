"""One event on the server, the occurrences that it stands for, and when to tell the server about them."""

from datetime import datetime
from typing import Any, Final

from attrs import frozen

from gpuruntime.control.events.occurrence import EventKey, Occurrence
from gpuruntime.kube.builtin.events import Event, EventSeries
from gpuruntime.meta import ObjectMeta, format_micros

__all__ = ["QUIET_SECONDS", "REFRESH_SECONDS", "Series", "Tally"]

# As client-go has it. Events live for an hour by default, and an update prolongs that: a series that goes on is told of
# often enough to stay.
REFRESH_SECONDS: Final = 30 * 60.0
QUIET_SECONDS: Final = 6 * 60.0

# Events about objects without a namespace live here; the server takes no other place.
_HOME_OF_CLUSTER_SCOPED: Final = "default"


@frozen
class Tally:
    """How often something was seen, and what was said about it last, when."""

    count: int
    note: str
    at: datetime

    def series(self) -> EventSeries | None:
        """What the event says about its repetition; nothing if there was none."""
        return EventSeries(self.count, format_micros(self.at)) if self.count > 1 else None


class Series:
    """The occurrences that one event stands for.

    The first is told at once, as is the second, by which people see that it goes on. Later ones are counted, and told
    each half an hour, and when there were none for six minutes. What is told is the newest state: the count, the time
    and the note.

    `tally` is what is known here, `told` what the server was told last, None before that. `exists` is whether the
    server has the event, as far as we know. `is_queued` is for the owner: whether it has a write coming.
    """

    __slots__ = ("_first", "exists", "is_queued", "key", "name", "namespace", "tally", "told", "told_at")

    def __init__(self, key: EventKey, name: str, first: Occurrence) -> None:
        self.key = key
        self.name = name
        self.namespace = first.regarding.namespace or _HOME_OF_CLUSTER_SCOPED
        self.tally = Tally(1, first.note, first.at)
        self.told: Tally | None = None
        self.told_at = 0.0
        self.exists = False
        self.is_queued = False
        self._first = first

    @property
    def untold(self) -> int:
        """How many occurrences the server was not told of."""
        return self.tally.count - (0 if self.told is None else self.told.count)

    def observe(self, note: str, at: datetime) -> None:
        self.tally = Tally(self.tally.count + 1, note, at)

    def accepted(self, tally: Tally, now: float) -> None:
        """Note that the server knows this much."""
        self.told, self.told_at, self.exists = tally, now, True

    def refused(self, tally: Tally, now: float) -> None:
        """Note that the server does not want to know: only what happens after this may be told, and not at once."""
        self.told, self.told_at = tally, now

    def is_due(self, now: float) -> bool:
        """Whether there is something to tell, and it is time to."""
        if self.told is None:
            return True
        if not self.untold:
            return False
        if self.told.count == 1 and self.exists:
            return True
        return now - self.told_at >= REFRESH_SECONDS or self._is_quiet(now)

    def is_over(self, now: float) -> bool:
        """Whether all is told and nothing more came for a while: the next occurrence is news, and a new event."""
        return not self.untold and self._is_quiet(now)

    def event(self, tally: Tally, controller: str, instance: str) -> Event:
        """The event for the server to create."""
        return Event(
            metadata=ObjectMeta(name=self.name, namespace=self.namespace),
            event_time=format_micros(self._first.at),
            series=tally.series(),
            reporting_controller=controller,
            reporting_instance=instance,
            action=self.key.action,
            reason=self.key.reason,
            type=self.key.type,
            note=tally.note,
            regarding=self._first.regarding,
            # A series of combined events has none in its key, because they differ in it.
            related=None if self.key.related is None else self._first.related,
        )

    def change(self, tally: Tally) -> dict[str, Any]:
        """The body of a merge patch of the event, in either of its API versions; the note goes extra."""
        return {"series": {"count": tally.count, "lastObservedTime": format_micros(tally.at)}}

    def has_news(self, tally: Tally) -> bool:
        """Whether the note that the server has may be another one."""
        return self.told is None or self.told.note != tally.note

    def _is_quiet(self, now: float) -> bool:
        return now - self.tally.at.timestamp() >= QUIET_SECONDS
