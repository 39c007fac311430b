"""A cache of desired states, so that an unchanged desired object is encoded and compared once."""

from typing import Any, Final

from attrs import define, field, frozen

from gpuruntime.aio.lru import LRU
from gpuruntime.control.writing.desired_state import OwnershipAnnotations, desired_body
from gpuruntime.meta.dynamic import DynamicObject
from gpuruntime.meta.identity import ObjectKey, ResourceKind
from gpuruntime.meta.objects import KubeObject, TypedObject

__all__ = ["DesiredState", "DesiredStateCache"]

_CACHE_SIZE: Final = 2048
# Equal in two versions of an object, these show that nothing that we write has changed: the server increments the
# generation with every change outside metadata and status, if the kind has a generation at all.
_COMPARED: Final = (
    "uid",
    "generation",
    "annotations",
    "labels",
    "owner_references",
    "finalizers",
    "deletion_timestamp",
)


@define
class DesiredState:
    """A desired object with its owner and its JSON, which must not be modified.

    `fulfilled` is the live object that last matched the desired state, if any.
    """

    desired: TypedObject | DynamicObject
    owner: tuple[Any, ...] | None
    body: dict[str, Any]
    fulfilled: KubeObject | None = None

    def is_fulfilled_by(self, live: KubeObject) -> bool:
        """Whether a live object certainly matches, because it equals the one that last matched."""
        if self.fulfilled is None or self.fulfilled is live:
            return self.fulfilled is live
        before, after = self.fulfilled.metadata, live.metadata
        return bool(after.generation) and all(getattr(before, name) == getattr(after, name) for name in _COMPARED)


@frozen
class DesiredStateCache:
    """The desired states of one writer, in an LRU of 2,048.

    Objects are frozen, so identity of the desired object is enough to reuse an entry.
    """

    annotations: OwnershipAnnotations
    _known: LRU[tuple[ResourceKind, ObjectKey, str], DesiredState] = field(factory=lambda: LRU(_CACHE_SIZE))

    def of(self, desired: TypedObject | DynamicObject, owner: KubeObject | None, mode: str) -> DesiredState:
        """The desired state of an object.

        Raises:
            OwnerError: the owner cannot own this object.
            ValueError: the object has no name.
        """
        entry = (desired.kind, desired.key, mode)
        owned_by = None if owner is None else (owner.kind, owner.key, owner.metadata.uid)
        known = self._known.get(entry)
        if known is not None and known.desired is desired and known.owner == owned_by:
            return known
        state = DesiredState(desired, owned_by, self.annotations.put_on(desired_body(desired, owner), owner))
        self._known.put(entry, state)
        return state
