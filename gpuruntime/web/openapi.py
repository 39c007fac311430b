"""OpenAPI 3.1 from the table of routes and the types that they take and give."""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuruntime.meta.structs import Struct
from gpuruntime.web.frame_headers import IDEMPOTENCY_KEY, OPERATION_ID
from gpuruntime.web.openapi_answers import ERROR_SCHEMA, describe_answers, usual_refusals
from gpuruntime.web.openapi_schemas import request_schema, response_schema
from gpuruntime.web.routing import NOT_OLDER_THAN, PREFIX, Idempotency, Route

__all__ = ["openapi_document"]

_DESCRIPTION: Final = """\
Runtime units with GPUs, on a Kubernetes cluster.

Answers are `{"data": ...}`, refusals `{"error": {"code", "message", "details"}}`. A write that is sent again with the
same operationID happens once; the header Idempotency-Key of its answers names it, also of a refusal. Unknown fields and
query parameters are refused.
"""
_OPERATION_ID: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[!-~]+$"}
_VARIABLE: Final = re.compile(r"{(\w+)}")
_SECTION: Final = re.compile(r"^(Args|Raises|Guarantees|Caveats|Returns):$", re.MULTILINE)


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """The description of an API that has these routes, as plain JSON: the same routes give the same, in their order.

    Raises:
        DefinitionError: a type has no schema, or its source cannot be read.
        ValueError: two types have one name, or two routes one method and path.
    """
    components = _Components()
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        methods = paths.setdefault(route.path, {})
        if route.method.lower() in methods:
            raise ValueError(f"route {route.method} {route.path}: expected one, got two")
        methods[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "GPU runtime API", "version": PREFIX.rpartition("/")[2], "description": _DESCRIPTION},
        "servers": [{"url": PREFIX}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the token file or of the cluster. Scopes: read, write, operator; each"
                    " includes those before it.",
                }
            },
            "responses": usual_refusals(),
            "schemas": components.schemas(),
        },
    }


class _Components:
    """The types that routes speak of, each under its name."""

    def __init__(self) -> None:
        self._schemas: dict[str, dict[str, Any]] = {"Error": ERROR_SCHEMA}

    def add(self, cls: type[Struct], schema: dict[str, Any]) -> dict[str, Any]:
        """Where the schema of a type is found."""
        name = cls.__name__
        if self._schemas.setdefault(name, schema) != schema:
            raise ValueError(f"type {name}: expected one meaning of the name in requests and answers, got two")
        return {"$ref": f"#/components/schemas/{name}"}

    def schemas(self) -> dict[str, Any]:
        return dict(sorted(self._schemas.items()))


def _operation(route: Route, components: _Components) -> dict[str, Any]:
    for answer in route.answers:
        if answer.type is not None:
            components.add(answer.type, response_schema(answer.type))
    scope = route.scope.name.lower()
    described = _described(route)
    return {
        "operationId": _operation_name(route),
        "tags": [_tag(route.path)],
        "summary": route.summary,
        "description": f"{described}\n\nScope: {scope}." if described else f"Scope: {scope}.",
        "x-scope": scope,
        "parameters": list(_parameters(route)),
        **_body(route, components),
        "responses": describe_answers(route),
    }


def _operation_name(route: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", _VARIABLE.sub(r"by \1", route.path))
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _tag(path: str) -> str:
    first, *rest = path.strip("/").split("/")
    return rest[0] if first == "operator" and rest else first


def _described(route: Route) -> str:
    """What the docstring of the handler tells callers: its text, without what it tells programmers."""
    text = inspect.getdoc(route.handler) or ""
    return _SECTION.split(text, maxsplit=1)[0].strip()


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name in _VARIABLE.findall(route.path):
        yield _parameter("path", name, {"type": "string"}, required=True)
    if route.query is not None:
        for name, schema in response_schema(route.query)["properties"].items():
            text = schema.pop("description", "")
            yield _parameter("query", name, schema, text)
    if route.idempotency is not Idempotency.NONE:
        yield _parameter("header", IDEMPOTENCY_KEY, _OPERATION_ID, f"The same as {OPERATION_ID} in the body.")
    if route.method == "GET":
        text = "The resourceVersion that the answer must not be older than."
        yield _parameter("header", NOT_OLDER_THAN, {"type": "string", "pattern": "^[1-9][0-9]{0,39}$"}, text)
    if route.takes_if_match:
        schema = {"type": "string", "pattern": r'^(\*|"[!#-~]*")$'}
        yield _parameter("header", "If-Match", schema, "The ETag of the state that is meant.")


def _parameter(
    place: str, name: str, schema: Mapping[str, Any], text: str = "", *, required: bool = False
) -> dict[str, Any]:
    described = {"description": text} if text else {}
    return {"name": name, "in": place, **described, "required": required, "schema": dict(schema)}


def _body(route: Route, components: _Components) -> dict[str, Any]:
    named = {} if route.idempotency is Idempotency.NONE else _id(route)
    if route.body is None and not named:
        return {}
    schema: dict[str, Any] = {"type": "object", "properties": named, "additionalProperties": False}
    if route.body is not None:
        schema = request_schema(route.body)
        schema["properties"] = {**named, **schema["properties"]}
        schema = components.add(route.body, schema)
    return {"requestBody": {"required": route.body is not None, "content": {"application/json": {"schema": schema}}}}


def _id(route: Route) -> dict[str, Any]:
    text = "The caller's name for this request: sent again with the same one, it happens once."
    if route.idempotency is Idempotency.REQUIRED:
        text += f" Required, here or as the header {IDEMPOTENCY_KEY}."
    else:
        text += f" One is made if there is none, and told in the header {IDEMPOTENCY_KEY}, also with a refusal."
    return {OPERATION_ID: {"description": text, **_OPERATION_ID, "type": ["string", "null"]}}
