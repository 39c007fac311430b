"""OpenAPI 3.1 from the table of routes and the types that they take and give."""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuruntime.web.openapi.answers import Refusals, describe_answers
from gpuruntime.web.openapi.info import INFO, SECURITY_SCHEMES, described_tags
from gpuruntime.web.openapi.schemas import Components, query_schema
from gpuruntime.web.server.headers import IDEMPOTENCY_KEY, OPERATION_ID
from gpuruntime.web.server.route import NOT_OLDER_THAN, PREFIX, Idempotency, Route

__all__ = ["openapi_document"]

_ONCE: Final = "The caller's name for this request: sent again with the same one, it happens once."
_VARIABLES: Final = {
    "name": "Its name.",
    "id": "Its id.",
    "operationID": "The operationID of the request.",
}
_OPERATION_ID: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[!-~]+$"}
_VARIABLE: Final = re.compile(r"{(\w+)}")
_SECTION: Final = re.compile(r"^(Args|Raises|Guarantees|Caveats|Returns):$", re.MULTILINE)


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """The description of an API that has these routes, as plain JSON: the same routes give the same, in their order.

    Raises:
        DefinitionError: a type has no schema, or its source cannot be read.
        ValueError: two types have one name, or two routes one name, or one method and path.
    """
    components = Components()
    refusals = Refusals(components)
    paths: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for route in routes:
        methods = paths.setdefault(route.path, {})
        if route.method.lower() in methods:
            raise ValueError(f"route {route.method} {route.path}: expected one, got two")
        if route.name in names:
            raise ValueError(f"route {route.name}: expected a name of its own, got two of it")
        names.add(route.name)
        methods[route.method.lower()] = _operation(route, components, refusals)
    tags = (tag for methods in paths.values() for operation in methods.values() for tag in operation["tags"])
    return {
        "openapi": "3.1.0",
        "info": INFO,
        "servers": [{"url": PREFIX}],
        "security": [{scheme: []} for scheme in SECURITY_SCHEMES],
        "tags": described_tags(tags),
        "paths": paths,
        "components": {
            "securitySchemes": SECURITY_SCHEMES,
            "responses": refusals.usual(),
            "schemas": components.all(),
        },
    }


def _operation(route: Route, components: Components, refusals: Refusals) -> dict[str, Any]:
    scope = route.scope.name.lower()
    described = _described(route)
    return {
        "operationId": route.name,
        "tags": [_tag(route.path)],
        "summary": route.summary,
        "description": f"{described}\n\nScope: {scope}." if described else f"Scope: {scope}.",
        "x-scope": scope,
        "parameters": list(_parameters(route)),
        **_body(route, components),
        "responses": describe_answers(route, components, refusals),
    }


def _tag(path: str) -> str:
    first, *rest = path.strip("/").split("/")
    return rest[0] if first == "operator" and rest else first


def _described(route: Route) -> str:
    """What the docstring of the handler tells callers: its text, without what it tells programmers."""
    text = inspect.getdoc(route.handler) or ""
    return _SECTION.split(text, maxsplit=1)[0].strip()


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name in _VARIABLE.findall(route.path):
        yield _parameter("path", name, {"type": "string"}, _VARIABLES.get(name, ""), required=True)
    if route.query is not None:
        for name, schema in query_schema(route.query).items():
            text = schema.pop("description", "")
            yield _parameter("query", name, schema, text)
    if route.takes_query_id:
        text = f"{_ONCE} Also as the header {IDEMPOTENCY_KEY}. {_made(route)}"
        yield _parameter("query", OPERATION_ID, _OPERATION_ID, text)
    if route.idempotency is not Idempotency.NONE:
        place = "the query" if route.body is None else "the body"
        yield _parameter("header", IDEMPOTENCY_KEY, _OPERATION_ID, f"The same as {OPERATION_ID} in {place}.")
    if route.method == "GET":
        text = "The resourceVersion that the answer must not be older than."
        yield _parameter("header", NOT_OLDER_THAN, {"type": "string", "pattern": "^[1-9][0-9]{0,39}$"}, text)
    if any(answer.events for answer in route.answers):
        text = "The id of the last event that a follower has seen: what happened after it is sent."
        yield _parameter("header", "Last-Event-ID", {"type": "string"}, text)
    if route.takes_if_match:
        schema = {"type": "string", "pattern": r'^(\*|"[!#-~]*")$'}
        yield _parameter("header", "If-Match", schema, "The ETag of the state that is meant.")


def _parameter(
    place: str, name: str, schema: Mapping[str, Any], text: str, *, required: bool = False
) -> dict[str, Any]:
    described = {"description": text} if text else {}
    return {"name": name, "in": place, **described, "required": required, "schema": dict(schema)}


def _body(route: Route, components: Components) -> dict[str, Any]:
    if route.body is None:
        return {}
    named: dict[str, Any] = {}
    if route.idempotency is not Idempotency.NONE:
        named[OPERATION_ID] = {
            "description": f"{_ONCE} {_made(route)}",
            **_OPERATION_ID,
            "type": ["string", "null"],
        }
    schema = components.request(route.body, named)
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _made(route: Route) -> str:
    """What happens without an operationID."""
    if route.idempotency is Idempotency.REQUIRED:
        return f"Required, here or as the header {IDEMPOTENCY_KEY}."
    return f"One is made if there is none, and named in the header {IDEMPOTENCY_KEY}, also with a refusal."
