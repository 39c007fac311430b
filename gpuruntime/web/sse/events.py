"""Steps of objects as server-sent events: what a follower is told, and how it is written."""

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

import orjson
from attrs import frozen

from gpuruntime.meta import Struct, TypedObject, encode
from gpuruntime.service.reads.reader import is_at_least
from gpuruntime.service.reads.watch_log import Step

__all__ = ["LiveEvents", "ResetView", "event_bytes", "heartbeat"]

K = TypeVar("K", bound=TypedObject)


@frozen
class ResetView(Struct):
    """What the events `reset` and `synced` say: the version of the full state between them, and how much it is."""

    resource_version: str
    """The version of the state."""
    count: int
    """How many objects there are."""


def event_bytes(name: str, data: bytes, version: str | None = None) -> bytes:
    """One event on the wire, with the JSON of its data. Without a version it is no place to come back to; "" takes back
    the places before it.
    """
    place = b"" if version is None else f"id: {version}\n".encode() if version else b"id:\n"
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), place, data)


def heartbeat(age: float) -> bytes:
    """A sign of life, which says how long ago the cluster gave one."""
    return f": heard of the cluster {age:.0f} s ago\n\n".encode()


@frozen
class LiveEvents(Generic[K]):
    """What one follower is told.

    Args:
        matches: which objects it follows. One that begins to match is told as added, one that ceases to as deleted.
        data: the JSON of what it sees of an object.
        with_ids: whether it can come back to where it was.
    """

    matches: Callable[[K], bool]
    data: Callable[[K], bytes]
    with_ids: bool

    def of_state(self, matching: Sequence[K], version: str) -> Iterator[bytes]:
        """The full state: `reset`, all that match as added, `synced`. Only after the last one is it all there.

        `reset` takes back the id that the follower had: who drops before `synced` has only a part of the state, and
        must begin anew.
        """
        summary = orjson.dumps(encode(ResetView(version, len(matching))))
        yield event_bytes("reset", summary, "" if self.with_ids else None)
        for item in matching:
            yield event_bytes("added", self.data(item))
        yield event_bytes("synced", summary, version if self.with_ids else None)

    def of_step(self, step: Step[K], beyond: str) -> bytes:
        """One step; b"" if it is none for this follower, or is in what it has seen up to version `beyond`."""
        if beyond and is_at_least(beyond, step.version):
            return b""
        version = step.version if self.with_ids else None
        before = step.before if step.before is not None and self.matches(step.before) else None
        if step.after is not None and self.matches(step.after):
            return event_bytes("added" if before is None else "modified", self.data(step.after), version)
        if before is not None:
            return event_bytes("deleted", self.data(step.after if step.after is not None else before), version)
        return b""
