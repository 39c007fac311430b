"""Paging of the lists of stocks and VMs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from gpuruntime.api.rest.machines import MachineQuery
from gpuruntime.endpoints.server.route import Page
from gpuruntime.meta import FrozenDict, ObjectKey, Struct
from gpuruntime.service.reads.reader import cursor_of
from gpuruntime.web.resources.object_models import after_cursor

__all__ = ["age_header", "page_of"]

T = TypeVar("T", bound=Struct)


def age_header(seconds: float) -> FrozenDict[str, str]:
    """Header Age: seconds since the data was last known to be current."""
    return FrozenDict({"Age": str(int(seconds))})


def page_of(items: Sequence[T], query: MachineQuery, name: Callable[[T], str]) -> Page:
    """The page that a query asks for, of items that are sorted by name.

    Raises:
        ApiError: 400 for a malformed cursor.
    """
    after = after_cursor(query.cursor)
    rest = [item for item in items if after is None or name(item) > after.name]
    shown = tuple(rest[: query.limit])
    return Page(shown, cursor_of(ObjectKey("", name(shown[-1]))) if len(rest) > len(shown) else "")
