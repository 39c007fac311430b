"""What callers ask of reads in the query: which objects, how many, in which state."""

from collections.abc import Callable
from typing import Annotated, Final, Self

from attrs import field, frozen

from gpuruntime.api.gpuunit import GPUUnit
from gpuruntime.api.namespaces import Namespaces
from gpuruntime.api.stockpool import StockPool
from gpuruntime.meta import (
    Length,
    ObjectKey,
    ObjectMeta,
    Pattern,
    Range,
    Selector,
    SelectorError,
    Struct,
    parse_selector,
    wire,
)
from gpuruntime.service.reads.paging import CursorError, parse_cursor
from gpuruntime.web.resources.object_views import phase_of
from gpuruntime.web.resources.unit_bodies import Namespace
from gpuruntime.web.server.errors import Fault, invalid

__all__ = [
    "JobsQuery",
    "ListQuery",
    "ReadyQuery",
    "StockQuery",
    "UnitPlaceQuery",
    "UnitQuery",
    "UnitWaitQuery",
    "UnitWatchQuery",
    "UnitsQuery",
    "after_cursor",
    "pool_filter",
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
class _PageQuery(Struct):
    """Which part of a list."""

    limit: _Limit = _PAGE
    """At most so many on a page."""
    cursor: _Cursor = None
    """What an earlier page gave as `next`."""


@frozen
class ListQuery(_PageQuery):
    """Which units or pools."""

    namespace: _Where = None
    """Only those of this namespace."""
    label_selector: _Labels = None
    """Only those whose labels match, such as `tier=gold,env!=test`."""
    phase: _Word = None
    """Only those in this phase: Ready, Progressing, Failed, or Empty, which only pools are."""
    spec_name: _Word = None
    """Only those of this flavour."""


@frozen
class UnitsQuery(ListQuery):
    """Which active units, and whether to follow them."""

    watch: bool = False
    """Whether to answer with a stream of server-sent events instead of a page."""
    resource_version: _Version = None
    """With watch: everything that happened after this version, as the header Last-Event-ID does."""


@frozen
class ReadyQuery(Struct):
    """What to wait for."""

    wait: Annotated[str | None, Pattern("^Ready$")] = None
    """Ready: answer when the unit is ready, or when the time is over."""
    timeout: _Timeout = 60
    """With wait: for at most so many seconds."""


@frozen
class UnitQuery(ReadyQuery):
    """Which active unit, and what to wait for."""

    namespace: _Where = None
    """Namespace of the unit; the one of active units unless given."""


@frozen
class UnitPlaceQuery(Struct):
    """Which active unit."""

    namespace: _Where = None
    """Namespace of the unit; the one of active units unless given."""


@frozen
class UnitWaitQuery(UnitPlaceQuery):
    """What to wait for."""

    for_: Annotated[str, Pattern("^(Ready|Deleted)$")] = field(default="Ready", metadata=wire("for"))
    """Ready: until the unit is ready. Deleted: until it is gone."""
    timeout: _Timeout = 60
    """For at most so many seconds."""


@frozen
class UnitWatchQuery(UnitPlaceQuery):
    """Which active unit to follow, and from when on."""

    resource_version: _Version = None
    """Everything that happened after this version, as the header Last-Event-ID does."""


@frozen
class StockQuery(Struct):
    """Which object of a stock namespace."""

    namespace: _Where = None
    """The stock namespace that it is in; the first one unless given."""


@frozen
class JobsQuery(_PageQuery):
    """Which jobs."""

    status: Annotated[str | None, Pattern("^(pending|running|succeeded|failed)$")] = None
    """Only jobs in this state."""
    type: _Word = None
    """Only jobs of this type, such as seed_stock_units."""


def after_cursor(cursor: str | None) -> ObjectKey | None:
    """Where a page begins.

    Raises:
        ApiError: 400 for what is no cursor.
    """
    try:
        return None if cursor is None else parse_cursor(cursor)
    except CursorError as error:
        raise invalid(Fault("?cursor", str(error))) from error


def unit_filter(query: ListQuery, namespaces: Namespaces, *, stock: bool) -> Callable[[GPUUnit], bool]:
    """Whether a unit is one of those that are asked for: of this role, and as the query says.

    Raises:
        ApiError: 400 for a selector that is none.
    """
    asked = _Asked.by(query)
    return lambda unit: (
        namespaces.is_stock(unit.metadata.namespace) == stock
        and asked.matches(unit.metadata, unit.spec.spec_name, phase_of(unit))
    )


def pool_filter(query: ListQuery) -> Callable[[StockPool], bool]:
    """Whether a pool is one of those that are asked for.

    Raises:
        ApiError: 400 for a selector that is none.
    """
    asked = _Asked.by(query)
    return lambda pool: asked.matches(pool.metadata, pool.spec.spec_name, phase_of(pool))


@frozen
class _Asked:
    query: ListQuery
    labels: Selector

    @classmethod
    def by(cls, query: ListQuery) -> Self:
        try:
            return cls(query, parse_selector(query.label_selector or ""))
        except SelectorError as error:
            raise invalid(Fault("?labelSelector", str(error))) from error

    def matches(self, meta: ObjectMeta, spec_name: str, phase: str) -> bool:
        query = self.query
        return (
            (query.namespace is None or query.namespace == meta.namespace)
            and (query.spec_name is None or query.spec_name == spec_name)
            and (query.phase is None or query.phase == phase)
            and self.labels.matches(meta.labels)
        )
