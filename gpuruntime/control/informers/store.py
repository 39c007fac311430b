"""The local copy of the objects of one kind: many readers, one writer.

Reads are synchronous and the loop has one thread, so a query sees the store at one moment, never in the middle of a
change.
"""
# ruff: noqa: SLF001 - the writer is the other half of the store

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from attrs import frozen

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.cache_errors import NotSyncedError
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.dispatcher import Dispatcher
from gpuruntime.control.informers.indexer import Entry, Indexer
from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.storage import Compact, Storage
from gpuruntime.control.informers.waiters import Waiters
from gpuruntime.kube.watch_events import WatchEvent
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.identity import ObjectKey
from gpuruntime.meta.label_selectors import Selector, parse_selector
from gpuruntime.meta.resource_version import ResourceVersionError, compare_versions

__all__ = ["Listing", "QuarantinedError", "Store", "StoreWriter", "reading_controller"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
_DECODED_KEPT = 256


reading_controller: ContextVar[str] = ContextVar("gpuruntime_reading_controller", default="")
"""The controller whose reconcile the current task belongs to; empty outside of reconciles."""


class QuarantinedError(Exception):
    """The object exists, but its newest state cannot be read; the message says why."""


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
    """The objects of one kind, as far as they are known here.

    Guarantees:
        - Objects are deeply immutable, and shared: reading costs no copy.
        - The states of one object only ever move forward.
        - `resource_version` never names a version whose effects are not in the store.
        - A reconcile never mistakes a store that has not synced for an empty one: `get` and `list` raise.
    """

    def __init__(
        self, storage: Storage[T], indexes: Sequence[Index] = (), namespaces: Sequence[str | None] = (None,)
    ) -> None:
        """`namespaces` are those that are watched one by one; (None,) means that all are watched together."""
        self._storage = storage
        self._indexer = Indexer(storage, indexes)
        self._versions: dict[str | None, str] = dict.fromkeys(namespaces, "")
        self._unsynced = set(namespaces)
        self._decoded: OrderedDict[tuple[ObjectKey, str], T] = OrderedDict()

    @property
    def index_names(self) -> frozenset[str]:
        """The names of its indexes."""
        return frozenset(index.name for index in self._indexer.indexes)

    @property
    def resource_version(self) -> str:
        """The version of the kind that the store has reached; empty before it has synced.

        A store of several namespaces has reached the oldest of their versions.
        """
        versions = list(self._versions.values())
        if not versions or "" in versions:
            return ""
        try:
            oldest = versions[0]
            for version in versions[1:]:
                if compare_versions(version, oldest) < 0:
                    oldest = version
        except ResourceVersionError:
            return ""
        return oldest

    def version_in(self, namespace: str | None) -> str:
        """The version reached in a namespace if it is watched by itself, else in all of them."""
        known = self._versions.get(namespace)
        return self.resource_version if known is None else known

    def __len__(self) -> int:
        return len(self._indexer.entries)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._indexer.entries

    @property
    def size(self) -> int:
        """The bytes that the objects had on the wire."""
        return self._indexer.size

    @property
    def quarantined(self) -> int:
        """The number of objects that cannot be read."""
        return self._indexer.faults

    def faults(self, limit: int) -> tuple[tuple[ObjectKey, str], ...]:
        """Up to `limit` of the objects that cannot be read, each with the reason."""
        if not self.quarantined:
            return ()
        entries = self._indexer.entries.values()
        return tuple(islice(((entry.key, entry.fault) for entry in entries if entry.fault is not None), limit))

    def __iter__(self) -> Iterator[ObjectKey]:
        """All keys, in order."""
        return self._indexer.keys(None, ())

    def get(self, key: ObjectKey) -> T | None:
        """The object, or None if there is none.

        Raises:
            QuarantinedError: the object exists but cannot be read. Do not take it for deleted.
            NotSyncedError: a reconcile reads, and the store has not synced yet.
            TypeError: `key` is not an ObjectKey.
        """
        entry = self._indexer.entries.get(key)
        if entry is None:
            if not isinstance(key, ObjectKey):
                raise TypeError(f"expected an ObjectKey(namespace, name) of {self._storage.kind}, got {key!r}")
            self._require_synced()
            return None
        return self._read(entry)

    def version_of(self, key: ObjectKey) -> tuple[str, str] | None:
        """UID and resource version of an object, quarantined or not, without decoding it."""
        entry = self._indexer.entries.get(key)
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

        Only the objects of the page are decoded. A label selector is matched against every object that the indexes
        leave: index the labels that you select by often.

        Raises:
            LookupError: `where` names an index that the store does not have.
            NotSyncedError: a reconcile reads, and the store has not synced yet.
        """
        self._require_synced()
        requirements = list((where or {}).items())
        known = self.index_names
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
        for key in self._indexer.keys(namespace, requirements, after):
            if limit is not None and len(items) >= limit:
                following = last
                break
            last = key
            entry = self._indexer.entries[key]
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

    def _require_synced(self) -> None:
        if self._unsynced and (controller := reading_controller.get()):
            raise NotSyncedError(
                f"the store of {self._storage.kind} has not synced yet, and controller {controller!r} does not wait"
                " for it: name its informer in reads=[...] where the controller is added"
            )

    def _read(self, entry: Entry) -> T:
        if entry.fault is not None:
            raise QuarantinedError(f"{self._storage.kind} {entry.key}: {entry.fault}")
        if not isinstance(self._storage, Compact):
            return self._storage.read(entry.kept)
        name = (entry.key, entry.version)
        known = self._decoded.get(name)
        if known is not None:
            self._decoded.move_to_end(name)
            return known
        try:
            item: T = self._storage.read(entry.kept)
        except DecodeError as error:
            entry.fault = f"{type(error).__name__}: {error}"
            self._indexer.faults += 1
            raise QuarantinedError(f"{self._storage.kind} {entry.key}: {entry.fault}") from error
        self._decoded[name] = item
        if len(self._decoded) > _DECODED_KEPT:
            self._decoded.popitem(last=False)
        return item


class StoreWriter(Generic[T]):
    """The only writer of a store. It dispatches to event handlers what it changes.

    A reflector calls `replace`, `handle` and `bookmark`, with the namespace that it watches or None for all. The
    synchronous `swap`, `upsert`, `remove` and `retry` change the store, return what changed and dispatch nothing.

    Guarantees:
        - The store is changed before event handlers are called.
        - An object on which an index, a transform or a projection raises is quarantined and retried with backoff.
    """

    def __init__(
        self, store: Store[T], dispatcher: Dispatcher[T] | None = None, retries: Retries[ObjectKey] | None = None
    ) -> None:
        """Without `retries`, which need a running loop, quarantined objects wait for their next change."""
        self._store = store
        self._dispatcher: Dispatcher[T] = dispatcher or Dispatcher()
        self._retries = retries
        self._waiters = Waiters()
        self.failures = 0
        """How often an index, a transform or a projection raised."""
        self.events: dict[str | None, int] = dict.fromkeys(store._versions, 0)
        """Watch events by namespace, or under None where all are watched together."""
        self.synced = asyncio.Event()
        """Set when the store is complete."""
        self.dispatched = asyncio.Event()
        """Set when, besides, the event handlers have been called for everything in it."""

    def add_indexes(self, indexes: Sequence[Index]) -> None:
        """Add the indexes that the store does not have. While it is empty."""
        self._store._indexer = Indexer(self._store._storage, (*self._store._indexer.indexes, *indexes))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return as soon as a condition holds, which is checked after every change and bookmark."""
        await self._waiters.until(condition)

    def new_indexer(self) -> Indexer:
        """An empty indexer for `replace`, to collect a full list in."""
        return Indexer(self._store._storage, self._store._indexer.indexes)

    async def replace(self, namespace: str | None, listed: Indexer, version: str) -> None:
        """Make the store hold what was listed at a version, all at once, and dispatch the differences."""
        async with self._dispatcher.lock:
            changes = self.swap(namespace, listed, version)
            if not self._store._unsynced:
                self.synced.set()
            self._waiters.notify()
            await self._dispatcher.dispatch_all(changes)
            if not self._store._unsynced:
                self.dispatched.set()

    async def handle(self, namespace: str | None, event: WatchEvent) -> None:
        """Take in that an object was added, modified or deleted, and dispatch the change."""
        async with self._dispatcher.lock:
            self.events[namespace] += 1
            try:
                if event.type == "DELETED":
                    changes = self.remove(namespace, event.raw)
                else:
                    changes = self.upsert(namespace, event.raw, event.size)
            except ValueError as error:
                _LOG.warning("ignoring object without a name", extra={"error": str(error)})
                return
            self._dispatcher.dispatch(changes)
            self._waiters.notify()

    def bookmark(self, namespace: str | None, version: str) -> None:
        """Note that the store holds everything up to a version."""
        self._reached(namespace, version)
        self._waiters.notify()

    async def run_retries(self) -> None:
        """Retry the objects on which an index, a transform or a projection raised, until cancelled."""
        retries = self._retries = self._retries or Retries()
        while True:
            key = await retries.next()
            async with self._dispatcher.lock:
                self._dispatcher.dispatch(self.retry(key))
                self._waiters.notify()
            await asyncio.sleep(0)

    def swap(self, namespace: str | None, listed: Indexer, version: str) -> Iterable[Change[T]]:
        """Make the store hold what was listed, all at once; returns the differences, deletions first.

        The changes of a first sync are made one by one as they are taken: ten thousand at once would block the loop.
        """
        store, storage = self._store, self._store._storage
        indexer = store._indexer
        initial = namespace in store._unsynced
        gone = [key for key in indexer.of_namespace(namespace) if key not in listed.entries]
        changes: list[Change[T]] = [Change(storage, indexer.drop(key), None) for key in gone]
        store._versions[namespace] = version
        store._unsynced.discard(namespace)
        if not indexer.entries:
            store._indexer = listed
            entries = tuple(listed.entries.values())
            if listed.faults:
                for entry in entries:
                    self._report(entry, None)
            added = (Change(storage, None, entry, initial=initial) for entry in entries if entry.fault is None)
            return chain(changes, added)
        for entry in listed.entries.values():
            changes.extend(self._put(entry, initial=initial))
        return changes

    def upsert(self, namespace: str | None, raw: dict[str, Any], size: int) -> list[Change[T]]:
        """Take in a new state of an object; returns what that changed.

        Raises:
            ValueError: the object has no name.
        """
        entry = self._store._indexer.entry(raw, size)
        changes = self._put(entry, initial=False)
        self._reached(namespace, entry.version)
        return changes

    def remove(self, namespace: str | None, raw: dict[str, Any]) -> list[Change[T]]:
        """Take in that an object was deleted; returns what that changed.

        Raises:
            ValueError: the object has no name.
        """
        entry = self._store._indexer.entry(raw, 0)
        old = self._store._indexer.drop(entry.key)
        self._reached(namespace, entry.version)
        return [] if old is None else [Change(self._store._storage, old, None)]

    def retry(self, key: ObjectKey) -> list[Change[T]]:
        """Index and convert the newest state of a quarantined object again; returns what that changed.

        An object that was replaced or deleted meanwhile is not retried.
        """
        indexer = self._store._indexer
        old = indexer.retried.get(key)
        entry = old
        if old is not None and old.raw is not None:
            entry = indexer.retry(old)
            if entry.fault is not None:
                entry.kept, entry.values = old.kept, old.values
            indexer.put(entry)
            self._report(entry, old)
        if self._retries is not None and (entry is None or entry.raw is None):
            self._retries.forget(key)
        if old is None or entry is None or entry.fault is not None:
            return []
        return [Change(self._store._storage, None if old.kept is None else old, entry)]

    def initial(self, key: ObjectKey | None = None) -> list[Change[T]]:
        """An initial addition of the object with a key, or of every object."""
        known = self._store._indexer.entries
        entries = known.values() if key is None else [known[key]] if key in known else []
        return [Change(self._store._storage, None, entry, initial=True) for entry in entries if entry.fault is None]

    @property
    def retrying(self) -> int:
        """The number of objects on which an index, a transform or a projection raised and that are retried."""
        return len(self._store._indexer.retried)

    @property
    def failing(self) -> str:
        """What is retried, with one object as an example; empty if nothing is."""
        retried = self._store._indexer.retried
        first = next(iter(retried.values()), None)
        if first is None:
            return ""
        return f"an index, transform or projection fails on {first.key} ({first.fault}), retrying {len(retried)}"

    def _reached(self, namespace: str | None, version: str) -> None:
        if version:
            self._store._versions[namespace] = version

    def _put(self, entry: Entry, *, initial: bool) -> list[Change[T]]:
        indexer, storage = self._store._indexer, self._store._storage
        old = indexer.entries.get(entry.key)
        if old is not None and old.uid == entry.uid and old.version == entry.version:
            return []
        if old is not None and old.uid == entry.uid and entry.fault is not None:
            # The state that was dispatched last stays, as the `before` of the change that ends the quarantine.
            entry.kept, entry.values = old.kept, old.values
        indexer.put(entry)
        self._report(entry, old)
        if old is not None and old.uid != entry.uid:
            deleted = Change(storage, old, None)
            return [deleted] if entry.fault is not None else [deleted, Change(storage, None, entry)]
        if entry.fault is not None:
            return []
        return [Change(storage, None if old is None or old.kept is None else old, entry, initial=initial)]

    def _report(self, entry: Entry, old: Entry | None) -> None:
        """Log that an object is quarantined, once for each reason, and have it retried if that can help."""
        if entry.raw is not None:
            self.failures += 1
            if self._retries is not None:
                self._retries.failed(entry.key)
        if entry.fault is not None and (old is None or old.fault != entry.fault):
            about = {"kind": str(self._store._storage.kind), "key": str(entry.key), "error": entry.fault}
            _LOG.warning("object quarantined, it cannot be read", extra=about)


def _labels(item: Any) -> Mapping[str, str]:
    labels = getattr(getattr(item, "metadata", None), "labels", None)
    if not isinstance(labels, Mapping):
        raise TypeError(f"{type(item).__name__} has no metadata.labels to select by: use an index instead")
    return labels
