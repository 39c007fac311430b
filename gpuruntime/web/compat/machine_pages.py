"""What the lists of stocks and VMs have in common."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, TypeVar

from attrs import frozen

from gpuruntime.meta import FrozenDict, Length, ObjectKey, Range, Struct
from gpuruntime.service.reads.paging import cursor_of
from gpuruntime.web.resources.list_queries import after_cursor
from gpuruntime.web.server.route import Page

__all__ = ["MachineQuery", "aged", "page_of"]

T = TypeVar("T", bound=Struct)
_USUAL: Final = 100


@frozen
class MachineQuery(Struct):
    """Which part of a list is wanted."""

    limit: Annotated[int, Range(minimum=1, maximum=1000)] = _USUAL
    """At most so many on a page."""
    cursor: Annotated[str | None, Length(maximum=1024)] = None
    """What an earlier page gave as `next`."""


def aged(seconds: float) -> FrozenDict[str, str]:
    """The header that says how long ago an answer was last known to be right."""
    return FrozenDict({"Age": str(int(seconds))})


def page_of(items: Sequence[T], query: MachineQuery, name: Callable[[T], str]) -> Page:
    """The part of a list, which is in the order of names, that a query asks for.

    Raises:
        ApiError: 400 for a cursor that no page gave.
    """
    after = after_cursor(query.cursor)
    rest = [item for item in items if after is None or name(item) > after.name]
    shown = tuple(rest[: query.limit])
    return Page(shown, cursor_of(ObjectKey("", name(shown[-1]))) if len(rest) > len(shown) else "")
