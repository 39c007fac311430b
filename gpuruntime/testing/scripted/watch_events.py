"""Watch events as values, and their bytes on the wire: whole, joined, cut, or oversized."""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

__all__ = [
    "WatchEvent",
    "added",
    "bookmark",
    "cut_in_pieces",
    "deleted",
    "error_event",
    "event_of_size",
    "first_half",
    "in_one_chunk",
    "initial_events_end",
    "line_of",
    "modified",
    "status_object",
]

WatchEvent = Mapping[str, Any]

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_PADDING = "gpuruntime.testing/padding"


def added(obj: Mapping[str, Any]) -> WatchEvent:
    return {"type": "ADDED", "object": obj}


def modified(obj: Mapping[str, Any]) -> WatchEvent:
    return {"type": "MODIFIED", "object": obj}


def deleted(obj: Mapping[str, Any]) -> WatchEvent:
    return {"type": "DELETED", "object": obj}


def bookmark(resource_version: str, *, kind: str = "Pod", api_version: str = "v1") -> WatchEvent:
    """A bookmark as the API server sends it: an object with its kind and resource version only."""
    return _bookmark(kind, api_version, {"resourceVersion": resource_version, "creationTimestamp": None})


def initial_events_end(resource_version: str, *, kind: str = "Pod", api_version: str = "v1") -> WatchEvent:
    """The bookmark that ends the initial events of a watch with `sendInitialEvents=true`."""
    annotations = {_INITIAL_EVENTS_END: "true"}
    metadata = {"resourceVersion": resource_version, "creationTimestamp": None, "annotations": annotations}
    return _bookmark(kind, api_version, metadata)


def error_event(code: int, reason: str, message: str = "scripted") -> WatchEvent:
    """An error event in a stream that began with status 200, such as 410 Expired."""
    return {"type": "ERROR", "object": status_object(code, reason, message)}


def status_object(code: int, reason: str, message: str = "scripted", **details: Any) -> dict[str, Any]:
    """A Kubernetes Status of a failure; `details` become its `details`."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    return {**status, "reason": reason, "code": code, **({"details": details} if details else {})}


def line_of(event: WatchEvent) -> bytes:
    """The event as one line of a stream, its line feed included."""
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def in_one_chunk(*events: WatchEvent) -> bytes:
    """The lines of several events in one chunk."""
    return b"".join(line_of(event) for event in events)


def cut_in_pieces(event: WatchEvent, count: int) -> tuple[bytes, ...]:
    """The line of an event in `count` non-empty pieces of about equal size; may cut through a UTF-8 character.

    Raises:
        ValueError: the line has fewer bytes than that, or `count` is not positive.
    """
    line = line_of(event)
    if not 1 <= count <= len(line):
        raise ValueError(f"cannot cut a line of {len(line)} bytes in {count} pieces")
    edges = [len(line) * index // count for index in range(count + 1)]
    return tuple(line[start:end] for start, end in pairwise(edges))


def first_half(event: WatchEvent) -> bytes:
    """The first half of an event's line, as a broken connection leaves it."""
    line = line_of(event)
    return line[: len(line) // 2]


def event_of_size(event: WatchEvent, size: int) -> WatchEvent:
    """The same event with an annotation that makes its line exactly `size` bytes long.

    Raises:
        ValueError: the line is longer than that already.
    """
    missing = size - len(line_of(_padded(event, "")))
    if missing < 0:
        raise ValueError(f"the line has {size - missing} bytes without padding, which is more than {size}")
    return _padded(event, "x" * missing)


def _bookmark(kind: str, api_version: str, metadata: Mapping[str, Any]) -> WatchEvent:
    return {"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": metadata}}


def _padded(event: WatchEvent, padding: str) -> WatchEvent:
    obj = event["object"]
    metadata = obj.get("metadata", {})
    annotations = {**metadata.get("annotations", {}), _PADDING: padding}
    return {**event, "object": {**obj, "metadata": {**metadata, "annotations": annotations}}}
