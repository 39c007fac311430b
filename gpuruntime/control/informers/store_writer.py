"""The writing half of a store: replace everything at once, take in one change at a time, tell what changed."""

import logging
from collections.abc import Iterable
from itertools import chain
from typing import Any, Generic, TypeVar

from gpuruntime.aio.retries import Retries
from gpuruntime.control.informers.changes import Change
from gpuruntime.control.informers.shelf import Entry, Memory, Shelf
from gpuruntime.meta.identity import ObjectKey

__all__ = ["StoreWriter"]

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class StoreWriter(Generic[T]):
    """The one who fills a store. A scope is a namespace, or None for a store of all namespaces."""

    def __init__(self, memory: Memory, failed: Retries[ObjectKey] | None = None) -> None:
        """Objects on which an index, a transform or a projection raised are put into `failed`, for `retry`."""
        self._memory = memory
        self._failed = failed

    def draft(self) -> Shelf:
        """An empty shelf to collect a full listing on; nobody reads it before `replace`."""
        return Shelf(self._memory.storage, self._memory.shelf.indexes)

    def replace(self, scope: str | None, draft: Shelf, version: str) -> Iterable[Change[T]]:
        """Make the store hold what the draft holds, all at once; gives what that changed, deletions first.

        Of a first filling, the changes are made as they are taken: ten thousand at once would stall the loop.
        """
        memory = self._memory
        shelf, storage = memory.shelf, memory.storage
        first = memory.versions[scope] == ""
        gone = [key for key in shelf.of_namespace(scope) if key not in draft.entries]
        changes: list[Change[T]] = [Change(storage, shelf.drop(key), None) for key in gone]
        memory.versions[scope] = version
        memory.is_complete = "" not in memory.versions.values()
        if not shelf.entries:
            memory.shelf = draft
            entries = tuple(draft.entries.values())
            if draft.faults:
                for entry in entries:
                    self._report(entry, None)
            added = (Change(storage, None, entry, initial=first) for entry in entries if entry.fault is None)
            return chain(changes, added)
        for entry in draft.entries.values():
            changes.extend(self._put(entry, initial=first))
        return changes

    def apply(self, scope: str | None, raw: dict[str, Any], size: int) -> list[Change[T]]:
        """Take in a new state of an object; gives what that changed.

        Raises:
            ValueError: the object has no name.
        """
        entry = self._memory.shelf.entry(raw, size)
        changes = self._put(entry, initial=False)
        self.reached(scope, entry.version)
        return changes

    def remove(self, scope: str | None, raw: dict[str, Any]) -> list[Change[T]]:
        """Take in that an object is gone; gives what that changed.

        Raises:
            ValueError: the object has no name.
        """
        entry = self._memory.shelf.entry(raw, 0)
        old = self._memory.shelf.drop(entry.key)
        self.reached(scope, entry.version)
        return [] if old is None else [Change(self._memory.storage, old, None)]

    def retry(self, key: ObjectKey) -> list[Change[T]]:
        """Have another try at an object on which code raised; gives what that changed.

        The newest state counts: one that was replaced or deleted meanwhile needs no other try.
        """
        shelf = self._memory.shelf
        old = shelf.retried.get(key)
        entry = old
        if old is not None and old.raw is not None:
            entry = shelf.entry_again(old)
            if entry.fault is not None:
                entry.kept, entry.values = old.kept, old.values
            shelf.put(entry)
            self._report(entry, old)
        if self._failed is not None and (entry is None or entry.raw is None):
            self._failed.forget(key)
        if old is None or entry is None or entry.fault is not None:
            return []
        return [Change(self._memory.storage, None if old.kept is None else old, entry)]

    def reached(self, scope: str | None, version: str) -> None:
        """The store holds everything up to this version; an object without one says nothing about that."""
        if version:
            self._memory.versions[scope] = version

    def _put(self, entry: Entry, *, initial: bool) -> list[Change[T]]:
        shelf, storage = self._memory.shelf, self._memory.storage
        old = shelf.entries.get(entry.key)
        if old is not None and old.uid == entry.uid and old.version == entry.version:
            return []
        if old is not None and old.uid == entry.uid and entry.fault is not None:
            # What controllers were told last stays known, so that they can be told the difference later.
            entry.kept, entry.values = old.kept, old.values
        shelf.put(entry)
        self._report(entry, old)
        if old is not None and old.uid != entry.uid:
            deleted = Change(storage, old, None)
            return [deleted] if entry.fault is not None else [deleted, Change(storage, None, entry)]
        if entry.fault is not None:
            return []
        return [Change(storage, None if old is None or old.kept is None else old, entry, initial=initial)]

    def _report(self, entry: Entry, old: Entry | None) -> None:
        """Say that an object cannot be read, once for each reason: no run of a controller will tell."""
        if entry.raw is not None:
            self._memory.failures += 1
            if self._failed is not None:
                self._failed.failed(entry.key)
        if entry.fault is not None and (old is None or old.fault != entry.fault):
            about = {"kind": str(self._memory.storage.kind), "key": str(entry.key), "error": entry.fault}
            _LOG.warning("object quarantined, it cannot be read", extra=about)
