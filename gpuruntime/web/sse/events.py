"""Server-sent events: the events of a watch, and their encoding."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import orjson
from attrs import frozen

from gpuruntime.api.rest.events import ResetView
from gpuruntime.endpoints.server.route import Events
from gpuruntime.meta import FrozenDict, Struct, TypedObject, encode
from gpuruntime.service.reads.reader import is_at_least
from gpuruntime.service.reads.watch_log import Step

__all__ = ["EventEncoder", "event_bytes", "heartbeat", "watch_events"]

K = TypeVar("K", bound=TypedObject)


def watch_events(view: type[Struct]) -> Events:
    """The events of a watch of objects with this view, and the type of their data."""
    return FrozenDict({"reset": ResetView, "added": view, "modified": view, "deleted": view, "synced": ResetView})


def event_bytes(name: str, data: bytes, version: str | None = None) -> bytes:
    """One event on the wire, with JSON as its data.

    `version` is the id to resume from. None sends no id, so the client keeps the id of an earlier event; "" clears it.
    """
    event_id = b"" if version is None else f"id: {version}\n".encode() if version else b"id:\n"
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), event_id, data)


def heartbeat(age: float) -> bytes:
    """A comment that keeps the connection alive, with the age of the cache."""
    return f": last response of the API server {age:.0f} s ago\n\n".encode()


@frozen
class EventEncoder(Generic[K]):
    """Encodes the events of one watch.

    Args:
        matches: the objects that are watched. An object that starts to match is `added`, one that stops is `deleted`.
        data: the JSON of an object.
        with_ids: whether the client can resume.
    """

    matches: Callable[[K], bool]
    data: Callable[[K], bytes]
    with_ids: bool

    def of_state(self, matching: Sequence[K], version: str) -> Iterator[bytes]:
        """The full state: `reset`, one `added` for each matching object, and `synced`, which completes it.

        `reset` clears the client's last event id: a client that disconnects before `synced` has only a part of the
        state, and must start over.
        """
        summary = orjson.dumps(encode(ResetView(version, len(matching))))
        yield event_bytes("reset", summary, "" if self.with_ids else None)
        for item in matching:
            yield event_bytes("added", self.data(item))
        yield event_bytes("synced", summary, version if self.with_ids else None)

    def of_step(self, step: Step[K], seen: str) -> bytes:
        """The event of one change; b"" if it does not match, or if the client has seen it, with all up to `seen`."""
        if seen and is_at_least(seen, step.version):
            return b""
        version = step.version if self.with_ids else None
        before = step.before if step.before is not None and self.matches(step.before) else None
        if step.after is not None and self.matches(step.after):
            return event_bytes("added" if before is None else "modified", self.data(step.after), version)
        if before is not None:
            return event_bytes("deleted", self.data(step.after if step.after is not None else before), version)
        return b""
