"""The answers of a route, for OpenAPI: those that it promises, and the refusals that the frame adds."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpuruntime.web.openapi.events import EVENT_STREAM, describe_events
from gpuruntime.web.openapi.schemas import Components
from gpuruntime.web.server.errors import CODES, Fault
from gpuruntime.web.server.headers import IDEMPOTENCY_KEY
from gpuruntime.web.server.route import NOT_OLDER_THAN, Answer, Idempotency, Route

__all__ = ["Refusals", "describe_answers"]

_JSON: Final = "application/json"
_MEANINGS: Final[Mapping[int, str]] = {
    400: "The request is at fault; `details` say where",
    401: "The caller is not known",
    403: "The caller lacks the scope, or calls from a place from where nobody gets in",
    404: "There is no such object",
    408: "The body did not come in time",
    409: "It cannot be done now",
    412: "The object is not in the state that If-Match names",
    413: "The body is larger than 1 MiB",
    415: "The body is no JSON in UTF-8 by its headers",
    500: "We failed; the log says why",
    503: "The cluster cannot be asked now, or (`namespace_not_found`) a namespace of the installation is gone",
    504: "Accepted and stored, but not finished in time; ask again with the same operationID",
}

_COME_AGAIN: Final = {
    "Retry-After": "Seconds to wait.",
    IDEMPOTENCY_KEY: "The operationID of a write, to send it again with.",
}
_REFUSAL_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"WWW-Authenticate": "How to say who calls."},
    503: _COME_AGAIN,
    504: _COME_AGAIN,
}


class Refusals:
    """The responses with a refusal: those that many routes have in common are components."""

    def __init__(self, components: Components) -> None:
        fault = components.response(Fault)
        error = components.add("ErrorBody", _error_body(fault))
        self._envelope = components.add("ErrorResponse", _error_response(error))
        self._usual: dict[str, dict[str, Any]] = {}

    def usual(self) -> dict[str, Any]:
        """Those that routes have in common, by their codes."""
        return dict(sorted(self._usual.items()))

    def response(self, status: int, codes: list[str]) -> dict[str, Any]:
        """A response with one of these codes, or where it is found."""
        if codes != [CODES.get(status)]:
            return self._described(status, codes)
        self._usual[codes[0]] = self._described(status, codes)
        return {"$ref": f"#/components/responses/{codes[0]}"}

    def _described(self, status: int, codes: list[str]) -> dict[str, Any]:
        listed = ", ".join(f"`{code}`" for code in codes)
        headers = _described(_REFUSAL_HEADERS.get(status, {}))
        return {
            "description": f"{_MEANINGS.get(status, 'Refused')}: {listed}.",
            **({"headers": headers} if headers else {}),
            "content": {_JSON: {"schema": self._envelope}},
        }


def describe_answers(route: Route, components: Components, refusals: Refusals) -> dict[str, Any]:
    """The `responses` of a route, by status."""
    found: dict[int, dict[str, Any]] = {}
    for answer in route.answers:
        response = found.setdefault(answer.status, {"description": answer.description, "headers": _headers(route)})
        if answer.description not in response["description"]:
            response["description"] += f" {answer.description}"
        content = _content(answer, components)
        if content:
            response.setdefault("content", {}).update(content)
    if route.gives_etag:
        found[304] = {"description": "The reader has it already (If-None-Match)."}
    codes: dict[int, list[str]] = {}
    for status, code in (*_refusals(route), *route.refusals):
        if code not in codes.setdefault(status, []):
            codes[status].append(code)
    found |= {status: refusals.response(status, words) for status, words in codes.items()}
    return {str(status): found[status] for status in sorted(found)}


def _error_body(fault: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Why a request was refused.",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "string", "description": "One word for programs; it never changes."},
            "message": {"type": "string", "description": "A sentence for people."},
            "details": {
                "type": "array",
                "description": "The parts of the request that are at fault, all at once.",
                "items": fault,
            },
        },
    }


def _error_response(error: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "description": "A refusal.", "required": ["error"], "properties": {"error": error}}


def _headers(route: Route) -> dict[str, Any]:
    headers = {"X-Request-ID": "The id of the request, the caller's own if it sent one."}
    if route.idempotency is not Idempotency.NONE:
        headers[IDEMPOTENCY_KEY] = "The operationID of the request, the caller's own if it sent one."
    if "{" in route.path or route.method != "GET":
        headers[NOT_OLDER_THAN] = "What the answer shows; send it with a read that must not be older."
    return _described(headers)


def _described(headers: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in headers.items()}


def _content(answer: Answer, components: Components) -> dict[str, Any]:
    if answer.events:
        return {EVENT_STREAM: {"schema": describe_events(answer.events, components)}}
    if answer.type is None:
        return {}
    item = components.response(answer.type)
    name = f"{answer.type.__name__}{'List' if answer.is_list else ''}Response"
    data = {"type": "array", "items": item} if answer.is_list else item
    more = {"next": {"type": "string", "description": "The cursor of what follows; absent at the end."}}
    schema = {
        "type": "object",
        "description": "An answer with a list." if answer.is_list else "An answer.",
        "required": ["data"],
        "properties": {"data": data, **(more if answer.is_list else {})},
    }
    return {_JSON: {"schema": components.add(name, schema)}}


def _refusals(route: Route) -> Iterator[tuple[int, str]]:
    """What the frame can answer on a route, whatever its handler does."""
    statuses = [400, 401, 403, 500, 503]
    if route.body is not None:
        statuses += [408, 413, 415]
    if route.takes_if_match:
        statuses.append(412)
    if "{" in route.path and not any(status == 404 for status, _ in route.refusals):
        statuses.append(404)
    yield from ((status, CODES[status]) for status in statuses)
    if route.idempotency is not Idempotency.NONE:
        yield 409, "operation_conflict"
        yield 504, "not_finished"
