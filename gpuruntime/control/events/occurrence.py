"""Something that happened to an object, in a form that the server will take."""

import re
from datetime import datetime
from random import Random
from typing import Final, Literal

from attrs import evolve, frozen

from gpuruntime.kube.builtin.events import ObjectReference
from gpuruntime.meta import KubeObject, clamp, is_dns_label
from gpuruntime.meta.names import SUBDOMAIN_LIMIT

__all__ = ["EventKey", "EventType", "InvalidEventError", "Occurrence", "cut", "cut_note", "event_name", "reference_to"]

EventType = Literal["Normal", "Warning"]

# The server counts bytes.
_WORD_LIMIT: Final = 128
_NOTE_LIMIT: Final = 1024
_FOREIGN: Final = re.compile(r"[^a-z0-9.-]+")


class InvalidEventError(ValueError):
    """The server would refuse such an event."""


@frozen(cache_hash=True)
class EventKey:
    """What occurrences of one event have in common. References are without the version of the object."""

    type: str
    action: str
    reason: str
    regarding: ObjectReference
    related: ObjectReference | None


@frozen
class Occurrence:
    """One occurrence. `regarding` and `related` are as they were given, with a version if they had one."""

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
        """Check what was given, and cut what is too long.

        Raises:
            InvalidEventError: a type, a reason, an action or an object that no event can have.
        """
        about = reference_to(regarding)
        beside = None if related is None else reference_to(related)
        subject = f"event about {about.kind} {about.namespace or ''}/{about.name}"
        if not about.kind or not about.name:
            raise InvalidEventError(f"{subject}: expected an object with a kind and a name")
        if about.namespace and not is_dns_label(about.namespace):
            raise InvalidEventError(f"{subject}: expected the name of a namespace, got {about.namespace!r}")
        if type_ not in {"Normal", "Warning"}:
            raise InvalidEventError(f"{subject}: expected type Normal or Warning, got {type_!r}")
        key = EventKey(
            type=type_,
            action=_word(action, "action", subject),
            reason=_word(reason, "reason", subject),
            regarding=_unversioned(about),
            related=None if beside is None else _unversioned(beside),
        )
        return cls(key, about, beside, cut_note(note), at)


def reference_to(obj: KubeObject | ObjectReference) -> ObjectReference:
    """The reference to an object; a reference is its own."""
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


def cut(text: str, limit: int) -> str:
    """The beginning of a text that takes at most so many bytes as UTF-8, with no half character at its end.

    What UTF-8 cannot say, half of a surrogate pair, becomes a question mark.
    """
    return text[:limit].encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")


def cut_note(note: str) -> str:
    """As much of a note as an event can have."""
    return cut(note, _NOTE_LIMIT)


def event_name(regarding: ObjectReference, at: datetime, random: Random) -> str:
    """A name for a new event about an object: the object's name, as far as it goes, the time and chance.

    Guarantees:
        It is valid whatever the object is called: there are kinds, such as roles, whose names an event cannot have.
    """
    suffix = f"{int(at.timestamp() * 1e6):x}{random.getrandbits(32):08x}"
    parts = (part.strip("-") for part in _FOREIGN.sub("-", (regarding.name or "").lower()).split("."))
    stem = ".".join(part for part in parts if part) or "object"
    return f"{clamp(stem, SUBDOMAIN_LIMIT - len(suffix) - 1)}.{suffix}"


def _unversioned(reference: ObjectReference) -> ObjectReference:
    return evolve(reference, resource_version=None)


def _word(text: str, field: str, subject: str) -> str:
    word = cut(text.strip(), _WORD_LIMIT)
    if not word:
        raise InvalidEventError(f"{subject}: expected a word for the {field}, got {text!r}")
    return word
