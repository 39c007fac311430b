"""What callers ask of reads in the query: which objects, how many, in which state."""

from collections.abc import Callable
from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.roles import Roles
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.label_selectors import Selector, SelectorError, parse_selector
from gpuruntime.meta.rules import Length, Pattern, Range
from gpuruntime.meta.structs import Struct, wire
from gpuruntime.service.paging import CursorError, parse_cursor
from gpuruntime.web.errors import Fault, invalid
from gpuruntime.web.unit_bodies import Namespace
from gpuruntime.web.views_units import phase_of_unit

__all__ = [
    "CreateUnitQuery",
    "JobsQuery",
    "PoolsQuery",
    "StockQuery",
    "StockUnitsQuery",
    "UnitPlaceQuery",
    "UnitQuery",
    "UnitWaitQuery",
    "UnitWatchQuery",
    "UnitsQuery",
    "after_cursor",
    "selected",
    "unit_filter",
]

_PAGE: Final = 100
_Limit = Annotated[int, Range(minimum=1, maximum=500)]
_Cursor = Annotated[str | None, Length(maximum=1024)]
_Labels = Annotated[str | None, Length(maximum=1024)]
_Word = Annotated[str | None, Length(minimum=1, maximum=63)]
_Where = Namespace | None
_Version = Annotated[str | None, Pattern("^[1-9][0-9]{0,39}$")]
_Timeout = Annotated[int, Range(minimum=0, maximum=600)]


@frozen
class StockUnitsQuery(Struct):
    """Which stock units."""

    namespace: _Where = None
    """Only units of this namespace."""
    label_selector: _Labels = None
    """Only units whose labels match, such as `tier=gold,env!=test`."""
    phase: _Word = None
    """Only units in this phase: Ready, Progressing or Failed."""
    spec_name: _Word = None
    """Only units of this flavour."""
    limit: _Limit = _PAGE
    """At most so many on a page."""
    cursor: _Cursor = None
    """What an earlier page gave as `next`."""


@frozen
class UnitsQuery(StockUnitsQuery):
    """Which active units, and whether to follow them."""

    watch: bool = False
    """Whether to answer with a stream of server-sent events instead of a page."""
    resource_version: _Version = None
    """With watch: everything that happened after this version, as the header Last-Event-ID does."""


@frozen
class UnitQuery(Struct):
    """Which active unit, and what to wait for."""

    namespace: _Where = None
    """Namespace of the unit; the one of active units unless given."""
    wait: Annotated[str | None, Pattern("^Ready$")] = None
    """Ready: answer when the unit is ready, or when the time is over."""
    timeout: _Timeout = 60
    """With wait: for at most so many seconds."""


@frozen
class CreateUnitQuery(Struct):
    """What to wait for after a write."""

    wait: Annotated[str | None, Pattern("^Ready$")] = None
    """Ready: answer when the unit is ready, or when the time is over."""
    timeout: _Timeout = 60
    """With wait: for at most so many seconds."""


@frozen
class UnitWaitQuery(Struct):
    """What to wait for."""

    for_: Annotated[str, Pattern("^(Ready|Deleted)$")] = field(default="Ready", metadata=wire("for"))
    """Ready: until the unit is ready. Deleted: until it is gone."""
    namespace: _Where = None
    """Namespace of the unit; the one of active units unless given."""
    timeout: _Timeout = 60
    """For at most so many seconds."""


@frozen
class UnitPlaceQuery(Struct):
    """Which active unit."""

    namespace: _Where = None
    """Namespace of the unit; the one of active units unless given."""


@frozen
class UnitWatchQuery(Struct):
    """Which active unit to follow, and from when on."""

    namespace: _Where = None
    """Namespace of the unit; the one of active units unless given."""
    resource_version: _Version = None
    """Everything that happened after this version, as the header Last-Event-ID does."""


@frozen
class StockQuery(Struct):
    """Which object of a stock namespace."""

    namespace: _Where = None
    """The stock namespace that it is in; the first one unless given."""


@frozen
class PoolsQuery(Struct):
    """Which pools."""

    namespace: _Where = None
    """Only pools of this namespace."""
    label_selector: _Labels = None
    """Only pools whose labels match."""
    phase: _Word = None
    """Only pools in this phase: Ready, Progressing, Empty or Failed."""
    spec_name: _Word = None
    """Only pools of this flavour."""
    limit: _Limit = _PAGE
    """At most so many on a page."""
    cursor: _Cursor = None
    """What an earlier page gave as `next`."""


@frozen
class JobsQuery(Struct):
    """Which jobs."""

    status: Annotated[str | None, Pattern("^(pending|running|succeeded|failed)$")] = None
    """Only jobs in this state."""
    type: _Word = None
    """Only jobs of this type, such as seed_stock_units."""
    limit: _Limit = _PAGE
    """At most so many on a page."""
    cursor: _Cursor = None
    """What an earlier page gave as `next`."""


def after_cursor(cursor: str | None) -> ObjectKey | None:
    """Where a page begins.

    Raises:
        ApiError: 400 for what is no cursor.
    """
    try:
        return None if cursor is None else parse_cursor(cursor)
    except CursorError as error:
        raise invalid(Fault("?cursor", str(error))) from error


def selected(text: str | None) -> Selector:
    """The labels that are asked for.

    Raises:
        ApiError: 400 for what is no selector.
    """
    try:
        return parse_selector(text or "")
    except SelectorError as error:
        raise invalid(Fault("?labelSelector", str(error))) from error


def unit_filter(query: StockUnitsQuery, roles: Roles, *, stock: bool) -> Callable[[GPUUnit], bool]:
    """Whether a unit is one of those that are asked for: of this role, and as the query says.

    Raises:
        ApiError: 400 for a selector that is none.
    """
    labels = selected(query.label_selector)

    def matches(unit: GPUUnit) -> bool:
        meta = unit.metadata
        return (
            roles.is_stock(meta.namespace) == stock
            and query.namespace in {None, meta.namespace}
            and query.spec_name in {None, unit.spec.spec_name}
            and query.phase in {None, phase_of_unit(unit)}
            and labels.matches(meta.labels)
        )

    return matches
