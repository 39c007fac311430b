"""The local copy of the objects of one kind: many readers, one writer.

Reads are synchronous and the loop has one thread, so a query sees one moment of the store, never half of a change.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any, Generic, TypeVar

from attrs import frozen

from gpuruntime.control.informers.cache_errors import NotSyncedError
from gpuruntime.control.informers.shelf import Entry, Memory
from gpuruntime.control.informers.storage import Compact, Storage
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.label_selectors import Selector, parse_selector
from gpuruntime.meta.resource_version import ResourceVersionError, compare

__all__ = ["Listing", "QuarantinedError", "Store", "reading_controller"]

T = TypeVar("T")
_RECENT = 256


reading_controller: ContextVar[str] = ContextVar("gpuruntime_reading_controller", default="")
"""The controller whose run the current task belongs to; empty outside of runs."""


class QuarantinedError(Exception):
    """The object is there, but its newest state cannot be read; the message says why."""


@frozen
class Listing(Generic[T]):
    """Objects in the order of their keys, as of one `resource_version` of the store.

    `next` continues a limited listing: pass it as `after`. `quarantined` counts objects that match but cannot be read.
    """

    items: tuple[T, ...]
    resource_version: str
    next: ObjectKey | None = None
    quarantined: int = 0


class Store(Generic[T]):
    """What is known of the objects of one kind.

    Guarantees:
        - Objects are deeply immutable, and shared: reading costs no copy.
        - The states of one object only ever move forward.
        - `resource_version` never names a version whose effects are not in the store.
        - A run of a controller never takes a store that is not filled yet for an empty one: `get` and `list` refuse.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._storage: Storage[T] = memory.storage
        self._recent: OrderedDict[tuple[ObjectKey, str], T] = OrderedDict()

    @property
    def resource_version(self) -> str:
        """The version of the kind that the store has reached; empty before it was filled.

        A store of several namespaces has reached the oldest of their versions.
        """
        versions = list(self._memory.versions.values())
        if not versions or "" in versions:
            return ""
        try:
            oldest = versions[0]
            for version in versions[1:]:
                if compare(version, oldest) < 0:
                    oldest = version
        except ResourceVersionError:
            return ""
        return oldest

    def version_in(self, namespace: str | None) -> str:
        """The version that the store has reached in a namespace, if that is watched by itself; else in all of them."""
        known = self._memory.versions.get(namespace)
        return self.resource_version if known is None else known

    def __len__(self) -> int:
        return len(self._memory.shelf.entries)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._memory.shelf.entries

    @property
    def size(self) -> int:
        """The bytes that the objects had on the wire."""
        return self._memory.shelf.size

    @property
    def quarantined(self) -> int:
        """How many objects cannot be read."""
        return self._memory.shelf.faults

    def faults(self, limit: int) -> tuple[tuple[ObjectKey, str], ...]:
        """Some of the objects that cannot be read, at most so many, and why each cannot."""
        if not self.quarantined:
            return ()
        entries = self._memory.shelf.entries.values()
        return tuple(islice(((entry.key, entry.fault) for entry in entries if entry.fault is not None), limit))

    def __iter__(self) -> Iterator[ObjectKey]:
        """All keys, in order."""
        return self._memory.shelf.keys(None, ())

    def get(self, key: ObjectKey) -> T | None:
        """The object, or None if there is none.

        Raises:
            QuarantinedError: there is one, but it cannot be read. It must not be taken for deleted.
            NotSyncedError: a run of a controller asks, and the store has no full state yet.
            TypeError: no key.
        """
        entry = self._memory.shelf.entries.get(key)
        if entry is None:
            if not isinstance(key, ObjectKey):
                raise TypeError(f"expected an ObjectKey(namespace, name) of {self._storage.kind}, got {key!r}")
            self._check_complete()
            return None
        return self._read(entry)

    def version_of(self, key: ObjectKey) -> tuple[str, str] | None:
        """UID and resource version of an object, quarantined or not, without decoding it."""
        entry = self._memory.shelf.entries.get(key)
        return None if entry is None else (entry.uid, entry.version)

    def list(
        self,
        namespace: str | None = None,
        *,
        where: Mapping[str, str] | None = None,
        labels: str | Selector | None = None,
        limit: int | None = None,
        after: ObjectKey | None = None,
    ) -> Listing[T]:
        """The objects of a namespace (or all) that have every index value of `where` and match the labels.

        Only what the page needs is decoded. A label selector looks at the labels of all objects that the indexes leave:
        index what you select often.

        Raises:
            LookupError: `where` names an index that the store does not have.
            NotSyncedError: a run of a controller asks, and the store has no full state yet.
        """
        self._check_complete()
        requirements = list((where or {}).items())
        known = {index.name for index in self._memory.shelf.indexes}
        for name, _ in requirements:
            if name not in known:
                raise LookupError(
                    f"no index {name!r} of {self._storage.kind}: it has {', '.join(sorted(known)) or 'none'}"
                )
        selector = parse_selector(labels) if isinstance(labels, str) else labels
        storage = self._storage
        quick = storage.selects(selector) if selector is not None and isinstance(storage, Compact) else None
        items: list[T] = []
        quarantined = 0
        following: ObjectKey | None = None
        last = after
        for key in self._memory.shelf.keys(namespace, requirements, after):
            if limit is not None and len(items) >= limit:
                following = last
                break
            last = key
            entry = self._memory.shelf.entries[key]
            if quick is not None and entry.fault is None and not quick(entry.kept):
                continue
            try:
                item = self._read(entry)
            except QuarantinedError:
                quarantined += 1
                continue
            if selector is None or quick is not None or selector.matches(_labels(item)):
                items.append(item)
        return Listing(tuple(items), self.resource_version, following, quarantined)

    def _check_complete(self) -> None:
        if not self._memory.is_complete and (controller := reading_controller.get()):
            raise NotSyncedError(
                f"the store of {self._storage.kind} has no full state yet, and controller {controller!r} does not wait"
                " for it: name its informer in reads=[...] where the controller is added"
            )

    def _read(self, entry: Entry) -> T:
        if entry.fault is not None:
            raise QuarantinedError(f"{self._storage.kind} {entry.key}: {entry.fault}")
        if not isinstance(self._storage, Compact):
            return self._storage.read(entry.kept)
        name = (entry.key, entry.version)
        known = self._recent.get(name)
        if known is not None:
            self._recent.move_to_end(name)
            return known
        try:
            item: T = self._storage.read(entry.kept)
        except DecodeError as error:
            entry.fault = f"{type(error).__name__}: {error}"
            self._memory.shelf.faults += 1
            raise QuarantinedError(f"{self._storage.kind} {entry.key}: {entry.fault}") from error
        self._recent[name] = item
        if len(self._recent) > _RECENT:
            self._recent.popitem(last=False)
        return item


def _labels(item: Any) -> Mapping[str, str]:
    labels = getattr(getattr(item, "metadata", None), "labels", None)
    if not isinstance(labels, Mapping):
        raise TypeError(f"a {type(item).__name__} has no labels to select by: index them instead")
    return labels
