"""The responses of a route, for OpenAPI: its successful responses, its errors and its event streams.

OpenAPI 3.1 cannot describe the items of a stream. A stream is described as a string whose content is an array of
events: the JSON Schema keyword `contentSchema`, with events as OpenAPI 3.2 models them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuruntime.endpoints.server.errors import CODES, Fault
from gpuruntime.endpoints.server.headers import IDEMPOTENCY_KEY
from gpuruntime.endpoints.server.route import NOT_OLDER_THAN, Idempotency, Response, Route
from gpuruntime.meta import Struct
from gpuruntime.web.openapi.schemas import Components

__all__ = ["ErrorResponses", "describe_responses"]

_JSON: Final = "application/json"
_EVENT_STREAM: Final = "text/event-stream"
_MEANINGS: Final[Mapping[int, str]] = {
    400: "The request is invalid; `details` lists the faults",
    401: "The credentials are missing or invalid",
    403: "The caller lacks the scope, or calls from another machine or web site where no credentials are configured",
    404: "The object does not exist",
    408: "The body did not arrive in time",
    409: "The request conflicts with the current state",
    410: "The result was kept for its time, and is gone",
    412: "The object does not have the ETag in If-Match",
    413: "The body is larger than 1 MiB, or than the route allows",
    415: "The headers do not declare a JSON body in UTF-8",
    429: "The queue of the function is full",
    500: "Internal error; the log has the cause",
    503: "The Kubernetes API server is not available, or (`namespace_not_found`) a namespace of the product is missing",
    504: "The request is stored, but did not finish in time; send it again with the same operationID",
}

_RETRY_HEADERS: Final = {
    "Retry-After": "Seconds to wait before a retry.",
    IDEMPOTENCY_KEY: "The operationID of a write, for the retry.",
}
_ERROR_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"WWW-Authenticate": "The authentication scheme."},
    429: _RETRY_HEADERS,
    503: _RETRY_HEADERS,
    504: _RETRY_HEADERS,
}
_EVENT_ID: Final = {
    "type": "string",
    "description": "The resourceVersion to resume from, as Last-Event-ID. If absent, the id of an earlier event stays"
    " valid; if empty, it is void.",
}


class ErrorResponses:
    """The error responses of a document. Those that routes share become components."""

    def __init__(self, components: Components) -> None:
        fault = components.response(Fault)
        error = components.add("ErrorBody", _error_body(fault))
        self._envelope = components.add("ErrorResponse", _error_response(error))
        self._shared: dict[str, dict[str, Any]] = {}

    def shared(self) -> dict[str, Any]:
        """The responses that routes share, by their codes."""
        return dict(sorted(self._shared.items()))

    def response(self, status: int, codes: list[str]) -> dict[str, Any]:
        """A response with one of these codes; a reference if it is shared."""
        if codes != [CODES.get(status)]:
            return self._describe(status, codes)
        self._shared[codes[0]] = self._describe(status, codes)
        return {"$ref": f"#/components/responses/{codes[0]}"}

    def _describe(self, status: int, codes: list[str]) -> dict[str, Any]:
        listed = ", ".join(f"`{code}`" for code in codes)
        headers = _describe_headers(_ERROR_HEADERS.get(status, {}))
        return {
            "description": f"{_MEANINGS.get(status, 'Error')}: {listed}.",
            **({"headers": headers} if headers else {}),
            "content": {_JSON: {"schema": self._envelope}},
        }


def describe_responses(route: Route, components: Components, errors: ErrorResponses) -> dict[str, Any]:
    """The `responses` of a route, by status."""
    found: dict[int, dict[str, Any]] = {}
    for response in route.responses:
        described = found.setdefault(response.status, {"description": response.description, "headers": _headers(route)})
        if response.description not in described["description"]:
            described["description"] += f" {response.description}"
        content = _content(response, components)
        if content:
            described.setdefault("content", {}).update(content)
    if route.gives_etag:
        found[304] = {"description": "The client has this ETag already (If-None-Match)."}
    codes: dict[int, list[str]] = {}
    for status, code in (*_default_errors(route), *route.errors):
        if code not in codes.setdefault(status, []):
            codes[status].append(code)
    found |= {status: errors.response(status, listed) for status, listed in codes.items()}
    return {str(status): found[status] for status in sorted(found)}


def _error_body(fault: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Why a request was rejected.",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "description": "A stable identifier for programs."},
            "message": {"type": "string", "description": "A sentence for people."},
            "details": {
                "type": "array",
                "description": "All invalid parts of the request.",
                "items": fault,
            },
        },
    }


def _error_response(error: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "An error response.",
        "required": ["error"],
        "properties": {"error": error},
    }


def _headers(route: Route) -> dict[str, Any]:
    headers = {"X-Request-ID": "The id of the request; the caller's own if it sent one."}
    if route.idempotency is not Idempotency.NONE:
        headers[IDEMPOTENCY_KEY] = "The operationID of the request; the caller's own if it sent one."
    if route.has_version and ("{" in route.path or route.method != "GET"):
        headers[NOT_OLDER_THAN] = "The version that the response shows. A read that sends it back sees no older state."
    return _describe_headers(headers)


def _describe_headers(headers: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()}


def _content(response: Response, components: Components) -> dict[str, Any]:
    if response.events:
        return {_EVENT_STREAM: {"schema": _stream_schema(response, components)}}
    if response.is_bytes:
        # The media type is the one that the function chose. Generators of clients know no "*/*".
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    if response.type is None:
        return {}
    item = components.response(response.type)
    name = f"{response.type.__name__}{'List' if response.is_list else ''}Response"
    data = {"type": "array", "items": item} if response.is_list else item
    more = {"next": {"type": "string", "description": "The cursor of the next page; absent on the last page."}}
    schema = {
        "type": "object",
        "description": "A response with a list." if response.is_list else "A response.",
        "required": ["data"],
        "properties": {"data": data, **(more if response.is_list else {})},
    }
    return {_JSON: {"schema": components.add(name, schema)}}


def _default_errors(route: Route) -> Iterator[tuple[int, str]]:
    """The errors that a route can return whatever its handler does."""
    statuses = [400, 401, 403, 500, 503]
    if route.body is not None:
        statuses += [408, 413, 415]
    if route.takes_if_match:
        statuses.append(412)
    if "{" in route.path and not any(status == 404 for status, _ in route.errors):
        statuses.append(404)
    yield from ((status, CODES[status]) for status in statuses)
    if route.idempotency is not Idempotency.NONE:
        yield 409, "operation_conflict"
        yield 504, "not_finished"


def _stream_schema(response: Response, components: Components) -> dict[str, Any]:
    """The schema of an event stream: one component for each type of data, and one for all of them.

    Raises:
        ValueError: the response has no name for the schema of its events, or another stream has other events and the
            same name.
    """
    events = response.events
    if not response.event_schema:
        raise ValueError(f"the stream of {', '.join(events)} has event_schema '': expected a name for their schema")
    by_type: dict[type[Struct], list[str]] = {}
    for name, kind in events.items():
        by_type.setdefault(kind, []).append(name)
    found = {kind: _event_schema(kind, names, components) for kind, names in by_type.items()}
    event = components.add(
        response.event_schema,
        {
            "description": "One event of a stream; `event` is its name.",
            "oneOf": list(found.values()),
            "discriminator": {
                "propertyName": "event",
                "mapping": {name: found[kind]["$ref"] for name, kind in events.items()},
            },
        },
    )
    return {
        "type": "string",
        "contentMediaType": _EVENT_STREAM,
        "contentSchema": {"type": "array", "items": event},
    }


def _event_schema(kind: type[Struct], names: list[str], components: Components) -> dict[str, Any]:
    return components.add(
        f"{kind.__name__}Event",
        {
            "type": "object",
            "description": f"A server-sent event: {' or '.join(names)}.",
            "required": ["event", "data"],
            "properties": {
                "event": {"type": "string", "description": "Name of the event.", "enum": names},
                "id": _EVENT_ID,
                "data": {
                    "type": "string",
                    "description": f"A {kind.__name__} as JSON.",
                    "contentMediaType": _JSON,
                    "contentSchema": components.response(kind),
                },
            },
        },
    )
