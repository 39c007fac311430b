"""Queries of resources: pages, filters, namespaces, waits and watches."""

from typing import Annotated, Final

from attrs import field, frozen

from gpuruntime.api.rest.objects import Namespace
from gpuruntime.meta import Length, Pattern, Range, Struct, wire

__all__ = [
    "DEFAULT_LIMIT",
    "FlavourQuery",
    "NamespaceQuery",
    "ObjectQuery",
    "ObjectsQuery",
    "PageQuery",
    "WaitForQuery",
    "WaitQuery",
    "WatchQuery",
    "Word",
]

DEFAULT_LIMIT: Final = 100
"""Items on a page of a list whose query names no limit."""

Word = Annotated[str | None, Length(minimum=1, maximum=63)]
"""A word to filter by, such as a phase or a flavour."""
_Version = Annotated[str | None, Pattern("^[1-9][0-9]{0,39}$", description="a resourceVersion, which is a number")]
_Timeout = Annotated[int, Range(minimum=0, maximum=600)]


@frozen
class PageQuery(Struct):
    """Which page of a list."""

    limit: Annotated[int, Range(minimum=1, maximum=500)] = DEFAULT_LIMIT
    """Maximum number of items on a page."""
    cursor: Annotated[str | None, Length(maximum=1024)] = None
    """The `next` of the previous page."""


@frozen
class ObjectsQuery(PageQuery):
    """Which objects, and whether to watch them."""

    namespace: Namespace | None = None
    """Only objects in this namespace."""
    label_selector: Annotated[str | None, Length(maximum=1024)] = None
    """Only objects whose labels match, such as `tier=gold,env!=test`."""
    phase: Word = None
    """Only objects in this phase: Ready, Progressing, Failed, Empty (pools only), Pending (storages only), or Paused
    (functions only)."""
    watch: bool = False
    """Respond with a stream of server-sent events instead of a page."""
    resource_version: _Version = None
    """With watch: start after this version, as header Last-Event-ID does."""


@frozen
class FlavourQuery(ObjectsQuery):
    """Which units, pools or functions, and whether to watch them."""

    spec_name: Word = None
    """Only objects of this flavour."""


@frozen
class WaitQuery(Struct):
    """What to wait for."""

    wait: Annotated[str | None, Pattern("^Ready$", description="Ready")] = None
    """Ready: respond when the object is ready, or when the timeout is over."""
    timeout: _Timeout = 60
    """With wait: the timeout in seconds."""


@frozen
class ObjectQuery(WaitQuery):
    """Which object, and what to wait for."""

    namespace: Namespace | None = None
    """Namespace of the object. Defaults to the first namespace of such objects."""


@frozen
class NamespaceQuery(Struct):
    """Which namespace an object is in."""

    namespace: Namespace | None = None
    """Namespace of the object. Defaults to the first namespace of such objects."""


@frozen
class WaitForQuery(NamespaceQuery):
    """Which object, and what to wait for."""

    for_: Annotated[str, Pattern("^(Ready|Deleted)$")] = field(default="Ready", metadata=wire("for"))
    """Ready: until the object is ready. Deleted: until the object is gone."""
    timeout: _Timeout = 60
    """Timeout in seconds."""


@frozen
class WatchQuery(NamespaceQuery):
    """Which object to watch, and from which version on."""

    resource_version: _Version = None
    """Start after this version, as header Last-Event-ID does."""
