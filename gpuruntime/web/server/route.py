"""Routes as values: what a route takes, what it gives, who may call it. The frame serves them, OpenAPI describes them.

A handler gets a `Call`, in which everything is decoded and checked, and gives a `Reply`. It knows nothing of JSON, of
headers or of credentials::

    Route(
        *("GET", "/gpu-units/{name}", self.get, "Get a unit", Scope.READ),
        name="getGpuUnit",
        answers=(Answer(200, UnitView, "The unit."),),
    )

What it cannot do it says with an exception: those of `service` and `kube` as they are, `ApiError` of `web.errors` for
the rest.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, IntEnum
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
    "Answer",
    "Call",
    "Caller",
    "Events",
    "Handler",
    "Idempotency",
    "Page",
    "Reply",
    "Route",
    "Scope",
]

PREFIX: Final = "/api/v1"
NOT_OLDER_THAN: Final = "X-Resource-Version"
"""Header of answers: what they show. Header of reads: what their answer must not be older than."""

CONFLICT: Final = (409, "operation_conflict")
"""The refusal of an operationID, or of a name, that belongs to something else."""
NO_CAPACITY: Final = (409, "insufficient_capacity")
"""The refusal for want of stock."""
REFUSED: Final = (409, "refused")
"""The refusal of the cluster."""
STALE: Final = (412, "conflict")
"""The refusal of a write that knows an older state of its object."""


class Scope(IntEnum):
    """What a caller may do; each includes those before it."""

    NONE = 0
    READ = 1
    WRITE = 2
    OPERATOR = 3


class Idempotency(Enum):
    """Whether a route takes an operationID: as header Idempotency-Key, in the body, or in the query of a DELETE."""

    NONE = "none"
    ACCEPTED = "accepted"
    """One is made and returned if the caller sends none."""
    REQUIRED = "required"


@frozen
class Caller:
    """Who sent a request."""

    name: str
    scope: Scope

    @property
    def sees_values(self) -> bool:
        """Whether values that may be secrets are shown: to those who may write them."""
        return self.scope >= Scope.WRITE


@frozen
class Call:
    """A request, decoded and checked.

    Args:
        names: the variable parts of the path.
        operation_id: the operationID of a route that takes one; "" otherwise.
        if_match: the resourceVersion that the caller's If-Match asks for, or None.
        at_least: the resourceVersion that the answer must not be older than, or "".
        request: for streams; nothing else should need it.
    """

    caller: Caller
    request_id: str
    request: web.Request = field(repr=False)
    names: Mapping[str, str] = EMPTY
    body: Any = None
    query: Any = None
    operation_id: str = ""
    if_match: str | None = None
    at_least: str = ""


@frozen
class Page:
    """A part of a list: `{"data": [...], "next": "cursor"}`. `next` is the cursor of what follows, "" at the end."""

    items: tuple[Struct, ...]
    next: str = ""


@frozen
class Reply:
    """What a handler answers. `data` becomes the envelope's data; None is an answer without a body.

    A header ETag makes the answer one that a reader with If-None-Match need not get again.
    """

    status: int
    data: Struct | tuple[Struct, ...] | Page | None = None
    headers: FrozenDict[str, str] = EMPTY


Events = Mapping[str, type[Struct]]
"""What the data of server-sent events is, by their names."""


@frozen
class Answer:
    """An answer that a route can give, for OpenAPI. `type` None is an answer without a JSON body.

    Args:
        events: the events of a stream, which the answer is if there are any.
    """

    status: int
    type: type[Struct] | None
    description: str
    is_list: bool = False
    events: Events = EMPTY


Handler = Callable[[Call], Awaitable[Reply | web.StreamResponse]]


@frozen
class Route:
    """One route below the API's prefix.

    Args:
        path: such as "/gpu-units/{name}".
        summary: one line; the docstring of the handler says the rest.
        name: what clients made from the description call it: a verb and a noun in camel case, such as getGpuUnit.
        body: what the JSON body must be: a Struct with rules, decoded strictly. `operationID` is none of its fields:
            the frame takes it out, and adds it to what OpenAPI says. A route without one refuses any body.
        query: what the query may have: a flat Struct of optional scalars.
        answers: what it gives when all goes well; refusals that every route knows are added by the frame.
        refusals: further refusals, as status and code. One of 404 is the code of what is not found here.
    """

    method: str
    path: str
    handler: Handler = field(repr=False)
    summary: str
    scope: Scope
    name: str = field(kw_only=True)
    body: type[Struct] | None = None
    query: type[Struct] | None = None
    answers: tuple[Answer, ...] = ()
    refusals: tuple[tuple[int, str], ...] = ()
    idempotency: Idempotency = Idempotency.NONE

    @property
    def takes_query_id(self) -> bool:
        """Whether an operationID may be in the query: a DELETE should have no body that it could be in."""
        return self.method == "DELETE" and self.idempotency is not Idempotency.NONE

    @property
    def takes_if_match(self) -> bool:
        """Whether it writes one object, so that a caller can say which state of it is meant."""
        return self.method != "GET" and "{" in self.path

    @property
    def gives_etag(self) -> bool:
        """Whether it shows one object, so that a reader who has its state already need not get it again."""
        return self.method == "GET" and "{" in self.path and any(answer.type is not None for answer in self.answers)
