"""What happened to one object, as the event handlers of an informer get it."""

from typing import Generic, Literal, TypeVar

from gpuruntime.control.informers.indexer import Entry
from gpuruntime.control.informers.storage import Storage
from gpuruntime.meta.decode_errors import DecodeError
from gpuruntime.meta.identity import ObjectKey

__all__ = ["Change", "ChangeType"]

T = TypeVar("T")
ChangeType = Literal["added", "modified", "deleted"]


class Change(Generic[T]):
    """One object added, modified or deleted.

    An object that was deleted and created again under its name is two changes, whatever the server's events were.
    `initial` marks objects that existed when the handler subscribed or when the store first synced. A deletion that a
    relist finds is a change, too; `before` is then the last state that was seen, which need not be the final one.

    Caveats:
        A compact store dispatches states that cannot be decoded, too: reading such an `after` raises the error.
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
        """The version of the new state, or of the last one seen if the object was deleted."""
        return self._present.version

    @property
    def before(self) -> T | None:
        """The state before the change, None if there was no readable one; decoded when it is read."""
        if self._old is None or self._old.kept is None:
            return None
        try:
            return self._storage.read(self._old.kept)
        except DecodeError:
            # A handler that compares the two states must not miss an object that has become readable.
            return None

    @property
    def after(self) -> T | None:
        """The state after the change, None if the object was deleted; decoded when it is read.

        Raises:
            DecodeError: the state does not fit its type.
        """
        return None if self._new is None else self._storage.read(self._new.kept)

    def merged(self, later: "Change[T]") -> "Change[T]":
        """This change and the next one of the same object as one change."""
        newest = later._new  # noqa: SLF001 - of the same class
        return Change(self._storage, self._old, newest, initial=self.initial and later.initial)

    @property
    def _present(self) -> Entry:
        entry = self._old if self._new is None else self._new
        assert entry is not None  # noqa: S101 - a change has at least one side
        return entry

    def __repr__(self) -> str:
        return f"<{self.type} {self._storage.kind.kind} {self.key} at {self.resource_version}>"
