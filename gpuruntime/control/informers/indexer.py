"""Internals of a store: entries by key, and the buckets of its indexes, always consistent with each other."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from sys import intern
from typing import Any

import orjson

from gpuruntime.control.informers.indexes import Index
from gpuruntime.control.informers.storage import Storage
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Entry", "Indexer"]


class Entry:
    """One object as a store keeps it.

    `fault` says why the newest state of the object cannot be read; `kept` is then the last readable state, or None.
    `raw` is the newest state as JSON if an index, transform or projection raised on it and is to be retried;
    `is_transformed` says whether `raw` has passed the transform.
    """

    __slots__ = ("fault", "is_transformed", "kept", "key", "raw", "size", "uid", "values", "version")

    def __init__(
        self,
        key: ObjectKey,
        uid: str,
        version: str,
        size: int,
        kept: Any,
        values: tuple[tuple[str, ...], ...],
        fault: str | None,
        raw: bytes | None = None,
        *,
        is_transformed: bool = False,
    ) -> None:
        self.key = key
        self.uid = uid
        self.version = version
        self.size = size
        self.kept = kept
        self.values = values
        self.fault = fault
        self.raw = raw
        self.is_transformed = is_transformed


class Indexer:
    """Entries by key, with an index of namespaces and one for each `Index`."""

    def __init__(self, storage: Storage[Any], indexes: Sequence[Index]) -> None:
        self.storage = storage
        # One index of each name, the first: two askers of an informer may name the same one.
        self.indexes = tuple({index.name: index for index in reversed(indexes)}.values())[::-1]
        self.entries: dict[ObjectKey, Entry] = {}
        self.size = 0
        self.faults = 0
        # Faulty entries that are retried.
        self.retried: dict[ObjectKey, Entry] = {}
        self._namespaces: dict[str, set[ObjectKey]] = {}
        self._buckets: dict[str, dict[str, set[ObjectKey]]] = {index.name: {} for index in indexes}
        self._order: list[ObjectKey] | None = None

    def entry(self, raw: dict[str, Any], size: int) -> Entry:
        """Make an entry of an object as it is on the wire. An object that cannot be kept gives an entry with a fault.

        Raises:
            ValueError: the object has no name.
        """
        metadata = raw.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise ValueError(f"expected an object with metadata.name, got {str(raw)[:128]}")  # noqa: TRY004 - data, not code
        namespace, version, uid = (
            metadata.get("namespace", ""),
            metadata.get("resourceVersion", ""),
            metadata.get("uid", ""),
        )
        key = ObjectKey(intern(namespace) if type(namespace) is str else "", metadata["name"])
        return self._make(key, str(uid), str(version), size, raw)

    def retry(self, old: Entry) -> Entry:
        """Make the entry again from the `raw` of an old one."""
        raw = orjson.loads(old.raw or b"{}")
        return self._make(old.key, old.uid, old.version, old.size, raw, is_transformed=old.is_transformed)

    def _make(
        self, key: ObjectKey, uid: str, version: str, size: int, raw: dict[str, Any], *, is_transformed: bool = False
    ) -> Entry:
        kept: Any = None
        values: tuple[tuple[str, ...], ...] = ()
        fault: str | None = None
        again: bytes | None = None
        try:
            if not is_transformed:
                raw, is_transformed = _transformed(self.storage, raw), True
            if self.indexes:
                values = tuple([_values(index, raw) for index in self.indexes])
            kept = self.storage.keep(raw)
        except BaseException as error:
            # User code, in plain functions, which are never cancelled: even a CancelledError is a failure of theirs.
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            kept, values, fault = None, (), f"{type(error).__name__}: {error}"
            # An object that does not fit its type never will. User code may succeed the next time.
            again = None if isinstance(error, DecodeError) else _json(raw)
        return Entry(key, uid, version, size, kept, values, fault, again, is_transformed=is_transformed)

    def put(self, entry: Entry) -> Entry | None:
        """Add or replace an entry; returns the one that was replaced."""
        key = entry.key
        old = self.entries.get(key)
        if old is None:
            if self._order is not None:
                insort(self._order, key)
            self._namespaces.setdefault(key.namespace, set()).add(key)
        else:
            self._unindex(old)
        self.entries[key] = entry
        self.size += entry.size
        if entry.fault is not None:
            self.faults += 1
            if entry.raw is not None:
                self.retried[key] = entry
        for index, values in zip(self.indexes, entry.values, strict=False):
            buckets = self._buckets[index.name]
            for value in values:
                bucket = buckets.get(value)
                if bucket is None:
                    buckets[value] = {key}
                else:
                    bucket.add(key)
        return old

    def drop(self, key: ObjectKey) -> Entry | None:
        """Remove an entry; returns it, or None if there was none."""
        old = self.entries.pop(key, None)
        if old is not None:
            if self._order is not None:
                del self._order[bisect_left(self._order, key)]
            _remove(self._namespaces, key.namespace, key)
            self._unindex(old)
        return old

    def keys(
        self, namespace: str | None, where: Iterable[tuple[str, str]], after: ObjectKey | None = None
    ) -> Iterator[ObjectKey]:
        """Keys in order, after `after`: all, or those of a namespace that have all the index values.

        Raises:
            KeyError: there is no such index.
        """
        sets: list[set[ObjectKey] | frozenset[ObjectKey]] = [
            self._buckets[index].get(value, frozenset()) for index, value in where
        ]
        if namespace is not None:
            sets.append(self._namespaces.get(namespace, frozenset()))
        if sets:
            sets.sort(key=len)
            order = sorted(sets[0].intersection(*sets[1:]))
        else:
            if self._order is None:
                self._order = sorted(self.entries)
            order = self._order
        # A copy: the caller may change the store while it iterates.
        return iter(order[0 if after is None else bisect_right(order, after) :])

    def of_namespace(self, namespace: str | None) -> Iterable[ObjectKey]:
        """Keys of one namespace, or all, in no particular order."""
        return self.entries.keys() if namespace is None else self._namespaces.get(namespace, frozenset())

    def _unindex(self, old: Entry) -> None:
        self.size -= old.size
        if old.fault is not None:
            self.faults -= 1
            self.retried.pop(old.key, None)
        for index, values in zip(self.indexes, old.values, strict=False):
            for value in values:
                _remove(self._buckets[index.name], value, old.key)


def _transformed(storage: Storage[Any], raw: dict[str, Any]) -> dict[str, Any]:
    made: Any = storage.transform(raw)
    if not isinstance(made, dict):
        raise TypeError(
            f"the transform of {storage.kind} returned {made!r}, expected a dict; return the object, changed or not"
        )
    return made


def _values(index: Index, raw: dict[str, Any]) -> tuple[str, ...]:
    values = index.values(raw)
    if isinstance(values, str):
        # Its characters would be the values.
        raise TypeError(f"index {index.name!r} returned the string {values!r}, expected a list such as [{values!r}]")
    found = tuple(values)
    for value in found:
        if not isinstance(value, str):
            raise TypeError(f"index {index.name!r} returned {value!r}, expected strings such as {str(value)!r}")
    return found


def _json(raw: dict[str, Any]) -> bytes | None:
    """The object as JSON, to retry; None if a transform has put something into it that is not JSON."""
    try:
        return orjson.dumps(raw)
    except TypeError:
        return None


def _remove(buckets: dict[str, set[ObjectKey]], value: str, key: ObjectKey) -> None:
    # Empty buckets are removed: values such as UIDs are never used again.
    bucket = buckets.get(value)
    if bucket is not None:
        bucket.discard(key)
        if not bucket:
            del buckets[value]
