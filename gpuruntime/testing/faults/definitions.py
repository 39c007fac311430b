"""The faults that `FaultProxy.inject` takes: what can go wrong between a client and an API server.

A fault with `times` applies to the first `times` matching requests; without, until it is lifted.
"""

from attrs import field, frozen
from attrs.validators import ge, gt, optional

__all__ = [
    "CutAfterBytes",
    "CutAfterEvents",
    "DelayEvents",
    "DelayRequests",
    "DieAfterWrites",
    "DieAtOnce",
    "DieBeforeWrite",
    "DropRequests",
    "FailRequests",
    "Fault",
    "HoldEvents",
    "LoseResponses",
    "RequestFault",
    "StallRequests",
]


@frozen
class DelayRequests:
    """A request is forwarded after `seconds`, or as soon as the fault is lifted."""

    seconds: float = field(validator=gt(0))
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class StallRequests:
    """A request is forwarded when the fault is lifted."""

    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class DropRequests:
    """The connection is closed without a response, and the request never reaches the server."""

    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class LoseResponses:
    """The server executes the request, then the client's connection is closed without a response."""

    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class FailRequests:
    """The proxy answers in place of the server, which never receives the request.

    The response is a Kubernetes Status, or `body` as an HTML page if one is given.
    """

    status: int = field(validator=ge(400))
    retry_after: int | None = field(default=None, kw_only=True)
    body: str | None = field(default=None, kw_only=True)
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class CutAfterBytes:
    """The connection is closed after `count` bytes of a body, possibly in the middle of an event.

    For a response in progress when the fault is injected, counting begins there, as it does for `CutAfterEvents`.
    """

    count: int = field(validator=ge(0))
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class CutAfterEvents:
    """The connection of a watch is closed after `count` events, bookmarks included; 0 closes it at once."""

    count: int = field(validator=ge(0))
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class DelayEvents:
    """Each event of a watch arrives `seconds` late; when the fault is lifted, delayed events arrive at once."""

    seconds: float = field(validator=gt(0))


@frozen
class HoldEvents:
    """The events of a watch are held until the fault is lifted, then arrive in order: the client's cache goes stale."""


@frozen
class DieAfterWrites:
    """After `count` successful matching writes the client is cut off, as if it had crashed there.

    Once the server has accepted the last of them, every request is dropped, matching or not, and every open watch is
    cut, until the fault is lifted. The response to the last write is still forwarded, unless `lose_response` is set;
    then the fault counts as triggered. Matching writes are sent one at a time, so that none slips through.

    A write is a POST, PUT, PATCH or DELETE. Not counted are writes that the server rejects, dry runs, access and token
    reviews, writes in flight when the fault is injected, and writes whose client disconnects before the response.
    """

    count: int = field(validator=ge(1))
    lose_response: bool = field(default=False, kw_only=True)


@frozen
class DieBeforeWrite:
    """The write with this number, counted as for `DieAfterWrites`, is dropped, and the client is cut off."""

    number: int = field(validator=ge(1))


@frozen
class DieAtOnce:
    """The client is cut off until the fault is lifted: every request is dropped, every open watch is cut."""


RequestFault = (
    DelayRequests | StallRequests | DropRequests | LoseResponses | FailRequests | CutAfterBytes | CutAfterEvents
)
Fault = RequestFault | DelayEvents | HoldEvents | DieAfterWrites | DieBeforeWrite | DieAtOnce
