"""Streams of server-sent events, for OpenAPI.

OpenAPI 3.1 has no words of its own for the items of a stream. To it a stream is a string; what the string holds is said
in those of JSON Schema: `contentSchema`, an array of events as OpenAPI 3.2 models them.
"""

from typing import Any, Final

from gpuruntime.meta import Struct
from gpuruntime.web.openapi.schemas import Components
from gpuruntime.web.server.route import Events

__all__ = ["EVENT_STREAM", "describe_events"]

EVENT_STREAM: Final = "text/event-stream"
_ID: Final = {
    "type": "string",
    "description": "The resourceVersion to come back with as Last-Event-ID. Without one there is no place to come back"
    " to; an empty one takes back those before it.",
}


def describe_events(events: Events, components: Components) -> dict[str, Any]:
    """The schema of a stream of these events. Each kind of data makes a schema of events, and all of them `WatchEvent`.

    Raises:
        ValueError: another stream has other events.
    """
    by_type: dict[type[Struct], list[str]] = {}
    for name, kind in events.items():
        by_type.setdefault(kind, []).append(name)
    found = {kind: _event(kind, names, components) for kind, names in by_type.items()}
    event = components.add(
        "WatchEvent",
        {
            "description": "One event of a stream; `event` says which.",
            "oneOf": list(found.values()),
            "discriminator": {
                "propertyName": "event",
                "mapping": {name: found[kind]["$ref"] for name, kind in events.items()},
            },
        },
    )
    return {
        "type": "string",
        "contentMediaType": EVENT_STREAM,
        "contentSchema": {"type": "array", "items": event},
    }


def _event(kind: type[Struct], names: list[str], components: Components) -> dict[str, Any]:
    return components.add(
        f"{kind.__name__}Event",
        {
            "type": "object",
            "description": f"A server-sent event: {' or '.join(names)}.",
            "required": ["event", "data"],
            "properties": {
                "event": {"type": "string", "description": "What happened.", "enum": names},
                "id": _ID,
                "data": {
                    "type": "string",
                    "description": f"What it happened to: a {kind.__name__} as JSON.",
                    "contentMediaType": "application/json",
                    "contentSchema": components.response(kind),
                },
            },
        },
    )
