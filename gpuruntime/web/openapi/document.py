"""The OpenAPI 3.1 document, from the routes and the types that they take and return."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpuruntime.endpoints.server.headers import IDEMPOTENCY_KEY, OPERATION_ID
from gpuruntime.endpoints.server.route import NOT_OLDER_THAN, PREFIX, Idempotency, Route
from gpuruntime.web.openapi.responses import ErrorResponses, describe_responses
from gpuruntime.web.openapi.schemas import Components, query_schema

__all__ = ["openapi_document"]

_INFO: Final[dict[str, Any]] = {
    "title": "GPU runtime API",
    "version": PREFIX.rpartition("/")[2],
    "description": """\
Runtime units with GPUs, on a Kubernetes cluster.

Responses are `{"data": ...}`, errors `{"error": {"code", "message", "details"}}`. A write that is sent again with the
same operationID is carried out once. Header Idempotency-Key of every response to a write, errors included, has its
operationID. Unknown fields and query parameters are rejected.
""",
    "contact": {"name": "The maintainers of gpuruntime"},
    "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
}
_SECURITY_SCHEMES: Final[dict[str, Any]] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token from the token file or from the cluster. Scopes: read, write, operator; each includes"
        " those before it. Scope access is for the access gateway.",
    }
}
_TAGS: Final = {
    "gpu-storages": "Storages: data that outlives units, on volumes that one unit at a time can mount.",
    "gpu-units": "Active units: containers with GPUs that run a user's image.",
    "serverless": "Functions: programs that run on request, and their invocations.",
    "health": "State of the process and the cluster.",
    "jobs": "Records of write requests, by operationID.",
    "stock-units": "Stock: units that reserve GPUs, run no workload, and can be claimed.",
    "stockpools": "Pools, which keep a number of ready stock units.",
    "stocks": "A simplified view of stock units.",
    "vms": "A simplified view of active units: machines with a default image.",
}
_IDEMPOTENCY: Final = "The caller's name for this request: sent again with the same one, it is carried out once."
_PATH_PARAMS: Final = {
    "name": "Its name.",
    "id": "Its id.",
    "operationID": "The operationID of the request.",
}
_OPERATION_ID: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[!-~]+$"}
_BYTES: Final = "application/octet-stream"
_VARIABLE: Final = re.compile(r"{(\w+)}")
_SECTION: Final = re.compile(r"^(Args|Raises|Guarantees|Caveats|Returns):$", re.MULTILINE)


def openapi_document(routes: Iterable[Route]) -> dict[str, Any]:
    """The OpenAPI document of these routes, as plain JSON. It is deterministic, and keeps the order of the routes.

    Raises:
        DefinitionError: a type has no schema, or its source cannot be read.
        ValueError: two types or two routes have the same name, or two routes the same method and path.
    """
    components = Components()
    errors = ErrorResponses(components)
    paths: dict[str, dict[str, Any]] = {}
    names: set[str] = set()
    for route in routes:
        methods = paths.setdefault(route.path, {})
        if route.method.lower() in methods:
            raise ValueError(f"route {route.method} {route.path}: expected one, got two")
        if route.name in names:
            raise ValueError(f"route {route.name}: expected a unique name, got two routes with it")
        names.add(route.name)
        methods[route.method.lower()] = _operation(route, components, errors)
    tags = {tag for methods in paths.values() for operation in methods.values() for tag in operation["tags"]}
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": PREFIX}],
        "security": [{scheme: []} for scheme in _SECURITY_SCHEMES],
        "tags": [{"name": name, **({"description": _TAGS[name]} if name in _TAGS else {})} for name in sorted(tags)],
        "paths": paths,
        "components": {
            "securitySchemes": _SECURITY_SCHEMES,
            "responses": errors.shared(),
            "schemas": components.all(),
        },
    }


def _operation(route: Route, components: Components, errors: ErrorResponses) -> dict[str, Any]:
    scope = str(route.scope)
    description = _description(route)
    return {
        "operationId": route.name,
        "tags": [_tag(route.path)],
        "summary": route.summary,
        "description": f"{description}\n\nScope: {scope}." if description else f"Scope: {scope}.",
        "x-scope": scope,
        "parameters": list(_parameters(route)),
        **_body(route, components),
        "responses": describe_responses(route, components, errors),
    }


def _tag(path: str) -> str:
    first, *rest = path.strip("/").split("/")
    return rest[0] if first == "operator" and rest else first


def _description(route: Route) -> str:
    """What the route does, without sections for programmers."""
    return _SECTION.split(route.documentation, maxsplit=1)[0].strip()


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name in _VARIABLE.findall(route.path):
        yield _parameter("path", name, {"type": "string"}, _PATH_PARAMS.get(name, ""), required=True)
    if route.query is not None:
        for name, schema in query_schema(route.query).items():
            text = schema.pop("description", "")
            yield _parameter("query", name, schema, text)
    if route.takes_query_id:
        text = f"{_IDEMPOTENCY} Header {IDEMPOTENCY_KEY} means the same. {_when_absent(route)}"
        yield _parameter("query", OPERATION_ID, _OPERATION_ID, text)
    if route.idempotency is not Idempotency.NONE:
        source = "the query" if route.body is None else "the body"
        yield _parameter("header", IDEMPOTENCY_KEY, _OPERATION_ID, f"The same as {OPERATION_ID} in {source}.")
    if route.method == "GET":
        text = "The oldest resourceVersion that the response may show."
        yield _parameter("header", NOT_OLDER_THAN, {"type": "string", "pattern": "^[1-9][0-9]{0,39}$"}, text)
    if any(response.events for response in route.responses):
        text = "The id of the last event that the client received: the stream continues after it."
        yield _parameter("header", "Last-Event-ID", {"type": "string"}, text)
    if route.takes_if_match:
        schema = {"type": "string", "pattern": r'^(\*|"[!#-~]*")$'}
        yield _parameter("header", "If-Match", schema, "The ETag that the object must have.")


def _parameter(
    location: str, name: str, schema: Mapping[str, Any], text: str, *, required: bool = False
) -> dict[str, Any]:
    described = {"description": text} if text else {}
    return {"name": name, "in": location, **described, "required": required, "schema": dict(schema)}


def _body(route: Route, components: Components) -> dict[str, Any]:
    if route.body is None:
        return {}
    more: dict[str, Any] = {}
    if route.idempotency is not Idempotency.NONE:
        more[OPERATION_ID] = {
            "description": f"{_IDEMPOTENCY} {_when_absent(route)}",
            **_OPERATION_ID,
            "type": ["string", "null"],
        }
    content: dict[str, Any] = {"application/json": {"schema": components.request(route.body, more)}}
    if route.reader is not None:
        content[_BYTES] = {"schema": {"type": "string", "format": "binary", "description": route.reader.description}}
    return {"requestBody": {"required": True, "content": content}}


def _when_absent(route: Route) -> str:
    """What happens without an operationID."""
    if route.idempotency is Idempotency.REQUIRED:
        return f"Required, here or as header {IDEMPOTENCY_KEY}."
    return f"Generated if absent; header {IDEMPOTENCY_KEY} of the response has it, also of an error."
