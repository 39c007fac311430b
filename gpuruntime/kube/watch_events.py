"""Watch streams: from chunks of bytes to watch events."""

from typing import Any, Literal, cast

import orjson
from attrs import frozen

from gpuruntime.kube.errors import UnavailableError, error_from_watch_status

__all__ = ["BrokenStreamError", "Lines", "WatchEvent", "parse_event"]

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_TYPES = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class BrokenStreamError(UnavailableError):
    """The stream delivered something that is not a watch event; the rest of it cannot be trusted."""


class Lines:
    """Splits chunks into lines of any length, without copying a long line twice."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Add a chunk; returns the lines that it completes."""
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            self._parts.append(chunk)
            return []
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        rest = lines.pop()
        if rest:
            self._parts.append(rest)
        return lines

    def end(self) -> None:
        """Check that the stream ended after a whole line.

        Raises:
            BrokenStreamError: half a line is left.
        """
        if self._parts:
            size = sum(map(len, self._parts))
            raise BrokenStreamError(f"the watch stream ended in the middle of a line, after {size} bytes of it")


@frozen
class WatchEvent:
    """One event; `raw` is the object as it is on the wire. The receiver owns it and may change it."""

    type: EventType
    raw: dict[str, Any]
    size: int

    @property
    def resource_version(self) -> str:
        version = self._metadata.get("resourceVersion")
        return version if isinstance(version, str) else ""

    @property
    def ends_initial_events(self) -> bool:
        """Whether this is the bookmark that ends the initial events of a streamed list."""
        annotations = self._metadata.get("annotations")
        return (
            self.type == "BOOKMARK" and isinstance(annotations, dict) and annotations.get(_INITIAL_EVENTS_END) == "true"
        )

    @property
    def _metadata(self) -> dict[str, Any]:
        metadata = self.raw.get("metadata")
        return metadata if isinstance(metadata, dict) else {}


def parse_event(line: bytes) -> WatchEvent | None:
    """Parse one line; None for an empty line and for unknown event types.

    Raises:
        BrokenStreamError: the line is not an event.
        KubeError: it is an ERROR event; the error is that of its Status.
    """
    if not line or line.isspace():
        return None
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BrokenStreamError(
            f"expected a watch event, got {len(line)} bytes that are not JSON: {line[:64]!r}"
        ) from error
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise BrokenStreamError(f"expected a watch event with an object, got {line[:64]!r}")
    kind = event.get("type")
    if kind == "ERROR":
        raise error_from_watch_status(event["object"])
    if not isinstance(kind, str) or kind not in _TYPES:
        return None
    return WatchEvent(cast("EventType", kind), event["object"], len(line))
