"""What can go wrong between a client and an API server, as values for `FaultProxy.inject`.

`times` says how often a fault is done, to the first requests that it meets. Without it, it lasts until it is lifted.
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
    """A request goes on to the server after so many seconds; at once when the fault is lifted."""

    seconds: float = field(validator=gt(0))
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class StallRequests:
    """A request goes on to the server when the fault is lifted."""

    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class DropRequests:
    """The connection is closed without an answer, and the request never reaches the server."""

    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class LoseResponses:
    """The server gets the request and answers it, then the connection is closed without an answer."""

    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class FailRequests:
    """The proxy answers in place of the server, which never gets the request.

    The answer is a Kubernetes Status, or `body` as a page of HTML where one is given.
    """

    status: int = field(validator=ge(400))
    retry_after: int | None = field(default=None, kw_only=True)
    body: str | None = field(default=None, kw_only=True)
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class CutAfterBytes:
    """The connection is closed after so many bytes of a body, in the middle of an event or not.

    For a response under way when the fault is injected, the count begins there, as it does for `CutAfterEvents`.
    """

    count: int = field(validator=ge(0))
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class CutAfterEvents:
    """The connection of a watch is closed after so many events, bookmarks included: after 0, at once."""

    count: int = field(validator=ge(0))
    times: int | None = field(default=None, kw_only=True, validator=optional(ge(1)))


@frozen
class DelayEvents:
    """Each event of a watch arrives so many seconds late; lifted, those under way arrive at once."""

    seconds: float = field(validator=gt(0))


@frozen
class HoldEvents:
    """The events of a watch are held back until the fault is lifted, then arrive in order: a cache grows stale."""


@frozen
class DieAfterWrites:
    """After so many successful writes that match, nothing passes any more: as if the client had died there.

    Once the server has accepted the last of them, every request is dropped, whether it matches or not, and every open
    watch is cut, until the fault is lifted. The answer of the last write is still passed on, unless it is to be lost;
    the fault counts as done after that. So that no write slips through, writes that match go to the server one at a
    time.

    A write is a POST, PUT, PATCH or DELETE. Not counted are those that the server refuses, rehearsals (dryRun), reviews
    of access and tokens, those under way when the fault is injected, and those whose client goes away before the
    server has answered.
    """

    count: int = field(validator=ge(1))
    lose_answer: bool = field(default=False, kw_only=True)


@frozen
class DieBeforeWrite:
    """This write, counted as for `DieAfterWrites`, never reaches the server, and nothing passes any more."""

    number: int = field(validator=ge(1))


@frozen
class DieAtOnce:
    """Nothing passes until the fault is lifted: every request is dropped, every open watch is cut."""


RequestFault = (
    DelayRequests | StallRequests | DropRequests | LoseResponses | FailRequests | CutAfterBytes | CutAfterEvents
)
Fault = RequestFault | DelayEvents | HoldEvents | DieAfterWrites | DieBeforeWrite | DieAtOnce
