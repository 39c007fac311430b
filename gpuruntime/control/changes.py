"""What happened to one object, as the subscribers of an informer are told it."""

from typing import Any, Generic, Literal, TypeVar

from gpuruntime.control.shelf import Entry
from gpuruntime.control.storage import Storage
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Change", "ChangeType"]

T = TypeVar("T")
ChangeType = Literal["added", "modified", "deleted"]


class Change(Generic[T]):
    """One step of one object's life.

    An object that was deleted and made again under its name is two changes, whatever the server's events looked like.
    `initial` marks objects that were there when the subscriber joined or when the store was first filled. A deletion
    that happened while nobody was looking is told all the same; `before` is then the last state that was seen, which
    need not be the final one.
    """

    __slots__ = ("_new", "_old", "_storage", "initial")

    def __init__(self, storage: Storage[T], old: Entry | None, new: Entry | None, *, initial: bool = False) -> None:
        self._storage = storage
        self._old = old
        self._new = new
        self.initial = initial

    @property
    def type(self) -> ChangeType:
        if self._old is None:
            return "added"
        return "deleted" if self._new is None else "modified"

    @property
    def key(self) -> ObjectKey:
        return self._present.key

    @property
    def uid(self) -> str:
        return self._present.uid

    @property
    def resource_version(self) -> str:
        """That of the new state, or of the last one seen if the object is gone."""
        return self._present.version

    @property
    def before(self) -> T | None:
        """The state before the change; decoded only if it is asked for."""
        return None if self._old is None or self._old.kept is None else self._storage.read(self._old.kept)

    @property
    def after(self) -> T | None:
        """The state after the change; decoded only if it is asked for."""
        return None if self._new is None else self._storage.read(self._new.kept)

    def values(self, position: int) -> frozenset[str]:
        """What the index at this position of the store's indexes says of the object, before and after, undecoded."""
        return frozenset(
            value
            for entry in (self._old, self._new)
            if entry is not None and position < len(entry.values)
            for value in entry.values[position]
        )

    @property
    def _present(self) -> Entry:
        entry: Any = self._new or self._old
        assert isinstance(entry, Entry)  # noqa: S101 - a change has at least one side
        return entry

    def __repr__(self) -> str:
        return f"<{self.type} {self._storage.kind.kind} {self.key} at {self.resource_version}>"
