"""Events as series: validated occurrences, and the series that one event on the server stands for."""

import re
from datetime import datetime
from random import Random
from typing import Any, Final, Literal

from attrs import evolve, frozen

from gpuruntime.kube.builtin.events import Event, EventSeries, ObjectReference
from gpuruntime.meta import KubeObject, ObjectMeta, clamp, format_micros, is_dns_label
from gpuruntime.meta.names import SUBDOMAIN_LIMIT

__all__ = [
    "QUIET_SECONDS",
    "REFRESH_SECONDS",
    "EventKey",
    "EventType",
    "InvalidEventError",
    "Occurrence",
    "Series",
    "Tally",
    "event_name",
    "reference_to",
    "truncate",
    "truncate_note",
]

EventType = Literal["Normal", "Warning"]

# The server counts bytes.
_WORD_LIMIT: Final = 128
_NOTE_LIMIT: Final = 1024
_INVALID_IN_NAME: Final = re.compile(r"[^a-z0-9.-]+")

# As in client-go. Events live for an hour by default, and each update extends that: an active series is updated often
# enough to stay.
REFRESH_SECONDS: Final = 30 * 60.0
QUIET_SECONDS: Final = 6 * 60.0

# The server accepts events about cluster-scoped objects only in this namespace.
_CLUSTER_SCOPED_NAMESPACE: Final = "default"


class InvalidEventError(ValueError):
    """The server would refuse this event."""


@frozen(cache_hash=True)
class EventKey:
    """What all occurrences of a series have in common. References have no resource version."""

    type: str
    action: str
    reason: str
    regarding: ObjectReference
    related: ObjectReference | None


@frozen
class Occurrence:
    """One recorded occurrence. `regarding` and `related` keep their resource version, if they have one."""

    key: EventKey
    regarding: ObjectReference
    related: ObjectReference | None
    note: str
    at: datetime

    @classmethod
    def of(
        cls,
        regarding: KubeObject | ObjectReference,
        type_: EventType,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | ObjectReference | None,
        at: datetime,
    ) -> "Occurrence":
        """Validate the fields of an event, and truncate texts that are too long.

        Raises:
            InvalidEventError: the type, reason, action or object is invalid.
        """
        about = reference_to(regarding)
        related_to = None if related is None else reference_to(related)
        subject = f"event about {about.kind} {about.namespace or ''}/{about.name}"
        if not about.kind or not about.name:
            raise InvalidEventError(f"{subject}: expected an object with a kind and a name")
        if about.namespace and not is_dns_label(about.namespace):
            raise InvalidEventError(f"{subject}: expected a valid namespace, got {about.namespace!r}")
        if type_ not in {"Normal", "Warning"}:
            raise InvalidEventError(f"{subject}: expected type Normal or Warning, got {type_!r}")
        key = EventKey(
            type=type_,
            action=_word(action, "action", subject),
            reason=_word(reason, "reason", subject),
            regarding=_unversioned(about),
            related=None if related_to is None else _unversioned(related_to),
        )
        return cls(key, about, related_to, truncate_note(note), at)


@frozen
class Tally:
    """The number of occurrences, and the note and time of the last one."""

    count: int
    note: str
    at: datetime

    def series(self) -> EventSeries | None:
        """The `series` field of the event; None for a single occurrence."""
        return EventSeries(self.count, format_micros(self.at)) if self.count > 1 else None


class Series:
    """The occurrences that one event on the server stands for.

    The first two occurrences are delivered at once: the second shows that it continues. Later ones are counted, and
    delivered every 30 minutes, and after 6 minutes without another one. A delivery carries the newest count, time and
    note.

    `tally` is the local state. `settled` is the state that the server last accepted or refused, None before the first
    delivery. `exists` is whether the server has the event, as far as known. `is_queued` belongs to the correlator.
    """

    __slots__ = ("_first", "exists", "is_queued", "key", "name", "namespace", "settled", "settled_at", "tally")

    def __init__(self, key: EventKey, name: str, first: Occurrence) -> None:
        self.key = key
        self.name = name
        self.namespace = first.regarding.namespace or _CLUSTER_SCOPED_NAMESPACE
        self.tally = Tally(1, first.note, first.at)
        self.settled: Tally | None = None
        self.settled_at = 0.0
        self.exists = False
        self.is_queued = False
        self._first = first

    @property
    def pending(self) -> int:
        """The number of occurrences that are not delivered yet."""
        return self.tally.count - (0 if self.settled is None else self.settled.count)

    def observe(self, note: str, at: datetime) -> None:
        """Count another occurrence."""
        self.tally = Tally(self.tally.count + 1, note, at)

    def accepted(self, tally: Tally, now: float) -> None:
        """Record that the server has this state."""
        self.settled, self.settled_at, self.exists = tally, now, True

    def refused(self, tally: Tally, now: float) -> None:
        """Record that the server refused this state: only later occurrences are delivered, and not at once."""
        self.settled, self.settled_at = tally, now

    def is_due(self, now: float) -> bool:
        """Whether there are pending occurrences, and it is time to deliver them."""
        if self.settled is None:
            return True
        if not self.pending:
            return False
        if self.settled.count == 1 and self.exists:
            return True
        return now - self.settled_at >= REFRESH_SECONDS or self._is_quiet(now)

    def is_over(self, now: float) -> bool:
        """Whether everything is delivered and the series is quiet: the next occurrence starts a new event."""
        return not self.pending and self._is_quiet(now)

    def event(self, tally: Tally, controller: str, instance: str) -> Event:
        """The event to create on the server."""
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
            # The key of an aggregated series has no related object, because its occurrences differ in it.
            related=None if self.key.related is None else self._first.related,
        )

    def patch(self, tally: Tally) -> dict[str, Any]:
        """The merge patch of the event, without the note; the same in both API groups of events."""
        return {"series": {"count": tally.count, "lastObservedTime": format_micros(tally.at)}}

    def note_changed(self, tally: Tally) -> bool:
        """Whether the server may have a different note."""
        return self.settled is None or self.settled.note != tally.note

    def _is_quiet(self, now: float) -> bool:
        return now - self.tally.at.timestamp() >= QUIET_SECONDS


def reference_to(obj: KubeObject | ObjectReference) -> ObjectReference:
    """A reference to an object; references are returned as they are."""
    if isinstance(obj, ObjectReference):
        return obj
    metadata = obj.metadata
    return ObjectReference(
        api_version=obj.kind.api_version,
        kind=obj.kind.kind,
        namespace=metadata.namespace or None,
        name=metadata.name,
        uid=metadata.uid or None,
        resource_version=metadata.resource_version or None,
    )


def truncate(text: str, limit: int) -> str:
    """The longest prefix of a text that fits into `limit` bytes of UTF-8, without a partial character.

    Lone surrogates, which UTF-8 cannot encode, become question marks.
    """
    return text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def truncate_note(note: str) -> str:
    """Truncate a note to the size that the server accepts."""
    return truncate(note, _NOTE_LIMIT)


def event_name(regarding: ObjectReference, at: datetime, random: Random) -> str:
    """A name for a new event: the name of the object, truncated, with the time and a random number.

    Guarantees:
        The name is valid for any object, even for kinds such as roles, whose names are not valid names of events.
    """
    suffix = f"{int(at.timestamp() * 1e6):x}{random.getrandbits(32):08x}"
    parts = (part.strip("-") for part in _INVALID_IN_NAME.sub("-", (regarding.name or "").lower()).split("."))
    stem = ".".join(part for part in parts if part) or "object"
    return f"{clamp(stem, SUBDOMAIN_LIMIT - len(suffix) - 1)}.{suffix}"


def _unversioned(reference: ObjectReference) -> ObjectReference:
    return evolve(reference, resource_version=None)


def _word(text: str, field: str, subject: str) -> str:
    word = truncate(text.strip(), _WORD_LIMIT)
    if not word:
        raise InvalidEventError(f"{subject}: expected a non-empty {field}, got {text!r}")
    return word
