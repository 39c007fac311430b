"""What the result store answers: ended invocations by ID and in pages. Its callers depend on these types alone.

::

    GET /v1/invocations/{namespace}/{function}/{id}         ArchivedInvocation; 404 if it is not in the archive
    GET /v1/invocations/{namespace}/{function}/{id}/body    the bytes; 404, or 410 result_expired
    GET /v1/invocations?namespace=&function=&state=...      a page: {"data": [ArchivedInvocation, ...], "next": "..."}

`Archive` is what a caller has, in the process of the store or over HTTP.
"""

from typing import Annotated, Final, Protocol

from attrs import frozen

from gpuruntime.api.invocations.identity import InvocationKey
from gpuruntime.api.invocations.messages import ResultRecord
from gpuruntime.api.invocations.states import InvocationState
from gpuruntime.meta import Format, Length, Pattern, Range, Struct

__all__ = [
    "ARCHIVE_AUDIENCE",
    "ARCHIVE_PREFIX",
    "LARGEST_ARCHIVE_PAGE",
    "RESULT_EXPIRED",
    "Archive",
    "ArchiveCursorError",
    "ArchivePage",
    "ArchiveQuery",
    "ArchiveUnavailableError",
    "ArchivedInvocation",
    "archive_body_path",
    "archive_path",
]

ARCHIVE_AUDIENCE: Final = "gpuruntime-result-store"
"""The audience of a token for the result store. A token for the API is refused, and the other way round."""
ARCHIVE_PREFIX: Final = "/v1"
RESULT_EXPIRED: Final = "result_expired"
"""The error code of a body that is gone, with status 410."""
LARGEST_ARCHIVE_PAGE: Final = 500

_TERMINAL: Final = tuple(state.value for state in InvocationState if state.is_terminal)
_State = Annotated[str | None, Pattern(f"^({'|'.join(_TERMINAL)})$")]
_Name = Annotated[str | None, Length(minimum=1, maximum=63)]
_Time = Annotated[str | None, Format("date-time")]


@frozen
class ArchivedInvocation(Struct):
    """An invocation that ended, without its body."""

    namespace: str
    function: str
    id: str
    record: ResultRecord
    """How it ended, as the result message has it."""
    ended_at: Annotated[str, Format("date-time")]
    """When NATS stored the result: lists are sorted by this time. RFC 3339 with microseconds."""
    expires_at: Annotated[str, Format("date-time")]
    """When the body expires."""
    body_bytes: int = 0
    """Size of the body, also when it has expired."""
    is_expired: bool = False
    """Whether the body has expired. The rest is kept for some days longer."""

    @property
    def key(self) -> InvocationKey:
        """The identity of the invocation."""
        return InvocationKey(self.namespace, self.function, self.id)


@frozen
class ArchiveQuery(Struct):
    """Which ended invocations, newest first."""

    namespace: _Name = None
    """Only those of functions in this namespace."""
    function: _Name = None
    """Only those of functions with this name."""
    state: _State = None
    """Only those that ended in this state."""
    since: _Time = None
    """Only those that ended at this time or later."""
    until: _Time = None
    """Only those that ended before this time."""
    limit: Annotated[int, Range(minimum=1, maximum=LARGEST_ARCHIVE_PAGE)] = 100
    """Maximum number of invocations on a page."""
    cursor: Annotated[str | None, Length(maximum=1024)] = None
    """The `next` of the previous page."""


@frozen
class ArchivePage:
    """A page. `next` is the cursor of the next one, "" on the last.

    Guarantees:
        A caller that follows the cursors sees each invocation at most once, and each one that was in the archive from
        the first page to the last, however many end meanwhile.
    """

    items: tuple[ArchivedInvocation, ...]
    next: str = ""


class ArchiveUnavailableError(Exception):
    """The result store does not answer, or cannot read its database; the message says which."""


class ArchiveCursorError(ValueError):
    """The cursor is not one that a page had, or the query has changed since."""


class Archive(Protocol):
    """The ended invocations that a result store has archived.

    Caveats:
        An invocation that has just ended may be missing: read RESULTS first.
    """

    async def get(self, key: InvocationKey) -> ArchivedInvocation | None:
        """An invocation; None if it is not in the archive.

        Raises:
            ArchiveUnavailableError: unknown now.
        """

    async def body(self, key: InvocationKey) -> bytes | None:
        """What the function returned; None if the invocation is not in the archive, or its body has expired.

        Raises:
            ArchiveUnavailableError: unknown now.
        """

    async def list(self, query: ArchiveQuery) -> ArchivePage:
        """One page.

        Raises:
            ArchiveCursorError: the cursor is not one of this query.
            ArchiveUnavailableError: unknown now.
        """


def archive_path(key: InvocationKey) -> str:
    """The path of an invocation. Each part is safe in a path as it is, but for a ":" that need not be escaped."""
    return f"{ARCHIVE_PREFIX}/invocations/{key.namespace}/{key.function}/{key.id}"


def archive_body_path(key: InvocationKey) -> str:
    """The path of the body of an invocation."""
    return f"{archive_path(key)}/body"
