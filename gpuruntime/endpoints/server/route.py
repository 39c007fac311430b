"""Routes as values: what a route takes, what it returns, and which scope it needs.

`endpoint` serves routes, and `openapi` describes them. A handler gets a `Call`, which is decoded and validated, and
returns a `Reply`. It deals with no JSON, no headers and no credentials::

    Route(
        *("GET", "/gpu-units/{name}", self.get, "Get a unit", Scope.READ),
        name="getGpuUnit",
        responses=(Response(200, UnitView, "The unit."),),
    )

A handler fails by raising: errors of `service` and `kube` as they are, `ApiError` of `server.errors` for the rest.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, Flag
from typing import Any, Final

from aiohttp import web
from attrs import field, frozen

from gpuruntime.meta import EMPTY, FrozenDict, Struct

__all__ = [
    "CONFLICT",
    "NOT_OLDER_THAN",
    "NO_CAPACITY",
    "PREFIX",
    "REFUSED",
    "STALE",
    "STORAGE_IN_USE",
    "BodyReader",
    "Call",
    "Caller",
    "Events",
    "Handler",
    "Idempotency",
    "Page",
    "Reply",
    "Response",
    "Route",
    "Scope",
]

PREFIX: Final = "/api/v1"
NOT_OLDER_THAN: Final = "X-Resource-Version"
"""In a response: the version that it shows. In a read: the oldest version that the response may show."""

CONFLICT: Final = (409, "operation_conflict")
"""The operationID or the name is already in use by another request."""
NO_CAPACITY: Final = (409, "insufficient_capacity")
"""No ready stock unit of the flavour is left."""
REFUSED: Final = (409, "refused")
"""The cluster rejected the write: a quota, an admission policy."""
STORAGE_IN_USE: Final = (409, "storage_in_use")
"""Another unit has a storage of the request, or it is being copied."""
STALE: Final = (412, "conflict")
"""If-Match names another version of the object than the current one."""


class Scope(Flag):
    """What a caller may do. read, write and operator each include those before them; access is beside them.

    A union such as `WRITE | ACCESS` is written write+access. `READ in scope` says whether a scope includes another.
    """

    NONE = 0
    READ = 1
    WRITE = READ | 2
    OPERATOR = WRITE | 4
    ACCESS = 8
    """Read the data of tenants through the access gateway. No other scope includes it."""
    ALL = OPERATOR | ACCESS

    def __str__(self) -> str:
        level = next((one for one in (Scope.OPERATOR, Scope.WRITE, Scope.READ) if one in self), None)
        words = [one.name for one in (level, Scope.ACCESS) if one is not None and one in self]
        return "+".join(word.lower() for word in words if word) or "none"


class Idempotency(Enum):
    """Whether a route takes an operationID: in header Idempotency-Key, in the body, or in the query of a DELETE."""

    NONE = "none"
    ACCEPTED = "accepted"
    """Optional. One is generated and returned if the caller sends none."""
    REQUIRED = "required"


@frozen
class Caller:
    """The authenticated sender of a request."""

    name: str
    scope: Scope

    @property
    def may_see_secrets(self) -> bool:
        """Whether values that may be secrets are shown: to callers who may write them."""
        return Scope.WRITE in self.scope


@frozen
class Call:
    """A request, decoded and validated.

    Args:
        path_params: the variable parts of the path.
        operation_id: the operationID of a route that takes one; "" otherwise.
        if_match: the resourceVersion in header If-Match; None for any.
        at_least: the oldest resourceVersion that the response may show; "" for any.
        request: for streams only.
    """

    caller: Caller
    request_id: str
    request: web.Request = field(repr=False)
    path_params: Mapping[str, str] = EMPTY
    body: Any = None
    query: Any = None
    operation_id: str = ""
    if_match: str | None = None
    at_least: str = ""


@frozen
class Page:
    """A page of a list: `{"data": [...], "next": "cursor"}`. `next` is the cursor of the next page, "" on the last."""

    items: tuple[Struct, ...]
    next: str = ""


@frozen
class Reply:
    """What a handler returns. `data` becomes the `data` of the response; None is a response without a body.

    With header ETag, a read whose If-None-Match has that ETag is answered with 304.
    """

    status: int
    data: Struct | tuple[Struct, ...] | Page | None = None
    headers: FrozenDict[str, str] = EMPTY


Events = Mapping[str, type[Struct]]
"""The type of the data of each server-sent event, by event name."""


@frozen
class Response:
    """A successful response of a route, for OpenAPI. `type` None is a response without a JSON body.

    Args:
        events: the events of a stream; the response is a stream if there are any.
        event_schema: the name of the schema of its events.
        is_bytes: whether it is bytes of any media type.
    """

    status: int
    type: type[Struct] | None
    description: str
    is_list: bool = False
    events: Events = EMPTY
    event_schema: str = ""
    is_bytes: bool = False


Handler = Callable[[Call], Awaitable[Reply | web.StreamResponse]]


@frozen
class BodyReader:
    """How a route reads its body, if that is not JSON alone.

    Args:
        read: decodes the body of a request with these headers and this query, perhaps in a thread. It raises ApiError.
        largest: the most bytes that it may have.
        description: of the body where it is not JSON, for OpenAPI.
    """

    read: Callable[[web.Request, bytes, Any], Any]
    largest: int
    description: str


@frozen
class Route:
    """One route below the API's prefix.

    Args:
        path: such as "/gpu-units/{name}".
        summary: one line.
        description: what it does; "" is the docstring of the handler.
        name: the operationId for generated clients: a verb and a noun in camel case, such as getGpuUnit.
        body: type of the JSON body: a Struct with validation rules, decoded strictly. `operationID` is not one of its
            fields: the endpoint handles it, and OpenAPI adds it. A route without a body type rejects any body.
        reader: reads the body instead; `body` is then what OpenAPI shows of it.
        query: type of the query: a flat Struct of optional scalars.
        responses: the successful responses.
        errors: further error responses, as status and code; those that every route has are added. One with status 404
            replaces the code `not_found` on this route.
        has_version: whether a path with a variable is that of an object, so that responses have its version.
    """

    method: str
    path: str
    handler: Handler = field(repr=False)
    summary: str
    scope: Scope
    name: str = field(kw_only=True)
    description: str = field(default="", kw_only=True)
    body: type[Struct] | None = None
    query: type[Struct] | None = None
    responses: tuple[Response, ...] = ()
    errors: tuple[tuple[int, str], ...] = ()
    idempotency: Idempotency = Idempotency.NONE
    has_version: bool = field(default=True, kw_only=True)
    reader: BodyReader | None = field(default=None, kw_only=True)

    @property
    def documentation(self) -> str:
        """What it does, and for a docstring also what is of interest to programmers."""
        return self.description or inspect.getdoc(self.handler) or ""

    @property
    def takes_query_id(self) -> bool:
        """Whether the operationID may be in the query: most DELETE requests have no body."""
        return self.method == "DELETE" and self.idempotency is not Idempotency.NONE

    @property
    def takes_if_match(self) -> bool:
        """Whether it writes one object, so that If-Match can name its version."""
        return self.method != "GET" and "{" in self.path

    @property
    def gives_etag(self) -> bool:
        """Whether it shows one object, so that its response has an ETag."""
        is_one = self.method == "GET" and "{" in self.path and self.has_version
        return is_one and any(one.type is not None for one in self.responses)
